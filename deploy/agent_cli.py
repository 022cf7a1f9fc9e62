"""The commands about agents: `agent`, `mcp`, `diagnose`, `secrets rewrap`. Words and options only."""

from pathlib import Path
from typing import Annotated, Any

import typer

Url = Annotated[str | None, typer.Option(envvar="PAGEGATE_URL", help="The server. Default: what `pagegate lite` left.")]
Token = Annotated[str | None, typer.Option(envvar="PAGEGATE_TOKEN", help="A token. Default: the operator's.")]
Data = Annotated[Path, typer.Option(envvar="PAGEGATE_DATA", help="The data folder of `pagegate lite`.")]
AsJson = Annotated[bool, typer.Option("--json", help="What the server answered, as JSON.")]

secrets_app = typer.Typer(help="Stored secrets of a running server.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(agent)
    app.command()(mcp)
    app.command()(diagnose)
    app.add_typer(secrets_app, name="secrets")


def agent(
    prompt: Annotated[str, typer.Argument(help="What to make, as you would say it to a person.")],
    project: Annotated[int | None, typer.Option(min=1, help="The project. Default: a new one.")] = None,
    session: Annotated[int | None, typer.Option(min=1, help="Continue this session, with its history.")] = None,
    credential: Annotated[
        str | None, typer.Option(help="A credential of yours by name, or `scripted`. Default: your newest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every event as one JSON line, then the run.")] = False,
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Let the built-in agent of a running server write pages, and follow it.

    Exit code 0: the run succeeded and saved every page it submitted last. 1: it did not. It goes on when you leave.
    """
    from pagegate.deploy.agent import run_agent

    server = _server(url, token, data)
    raise typer.Exit(run_agent(prompt, server, project=project, session=session, use=credential, as_json=as_json))


def mcp(
    project: Annotated[int, typer.Option(min=1, help="The project that the agent works on.")],
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Let a coding agent use a running server's tools: MCP over stdin and stdout. The agent starts this command.

    Over HTTP the same tools are at /projects/PROJECT/mcp of the server.
    """
    from pagegate.deploy.mcp_stdio import serve_mcp

    raise typer.Exit(serve_mcp(_server(url, token, data), project))


def diagnose(
    target: Annotated[
        str, typer.Argument(metavar="RUN|KIND:JOB", help="A run's id, or a job: build:7, page:7, image:7, …")
    ],
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Show everything known of a run or of a job: state, leases, steps, errors, and what follows. Changes nothing.

    Exit code 1 for one that does not exist.
    """
    from pagegate.deploy.diagnose import BadTarget
    from pagegate.deploy.diagnose import diagnose as show

    try:
        code = show(target, _server(url, token, data), as_json=as_json)
    except BadTarget as bad:
        typer.echo(f"pagegate diagnose: {bad}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(code)


@secrets_app.command("rewrap")
def secrets_rewrap(url: Url = None, token: Token = None, data: Data = Path("data")) -> None:
    """Encrypt stored model credentials with the current AI_SECRET_ENCRYPTION_KEY, after it was changed.

    Exit code 1 when some cannot be read with any key of the server.
    """
    from pagegate.deploy.diagnose import rewrap_secrets

    raise typer.Exit(rewrap_secrets(_server(url, token, data)))


def _server(url: str | None, token: str | None, data: Path) -> Any:
    from pagegate.deploy.talking import Server

    return Server(url, token, data)
