"""The commands about the keys of tickets (K1, K3): `keys new`, `list`, `rotate`, `fernet`. Words and options only."""

from pathlib import Path
from typing import Annotated

import typer

EnvFile = Annotated[Path | None, typer.Option("--env-file", help="Settings, as in deploy/.env.example.")]
Data = Annotated[Path, typer.Option(envvar="PAGEGATE_DATA", help="The data folder of `pagegate lite`.")]

keys_app = typer.Typer(help="The keys that tickets are signed with, on this machine.", no_args_is_help=True)


@keys_app.command("new")
def keys_new(
    file: Annotated[Path, typer.Argument(help="Where the key goes; never overwritten.")],
    bits: Annotated[int, typer.Option(help="2048 or more.")] = 3072,
) -> None:
    """Make an RSA key that only its owner may read."""
    from pagegate.deploy.keys import new_key

    raise typer.Exit(new_key(file, bits))


@keys_app.command("list")
def keys_list(env_file: EnvFile = None, data: Data = Path("data")) -> None:
    """List the keys that a Backend of these settings starts with."""
    from pagegate.deploy.keys import list_keys

    raise typer.Exit(list_keys(env_file, data))


@keys_app.command("rotate")
def keys_rotate(
    env_file: EnvFile = None,
    data: Data = Path("data"),
    kid: Annotated[str | None, typer.Option(help="The new key's id. Default: the current one's, one higher.")] = None,
    to: Annotated[Path | None, typer.Option(help="The new key's file. Default: beside the current one.")] = None,
    write: Annotated[Path | None, typer.Option(help="Write the settings into this environment file too.")] = None,
) -> None:
    """Make the next key, and say what must be set so that it signs and the old one still verifies."""
    from pagegate.deploy.keys import rotate

    raise typer.Exit(rotate(env_file, data, key_id=kid, to=to, write=write))


@keys_app.command("fernet")
def keys_fernet() -> None:
    """Print a new value for AI_SECRET_ENCRYPTION_KEY."""
    from pagegate.deploy.keys import new_fernet_key

    raise typer.Exit(new_fernet_key())
