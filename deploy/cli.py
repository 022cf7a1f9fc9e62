"""`pagegate`: the commands, thin on purpose. Each imports what it needs when it runs, so `--help` costs nothing.

Owns the command line's words and exit codes: 0 good, 1 a page was refused (or a command failed at the server), 2 the
command makes no sense or the machine failed; the processes use those of `process.py`; 130 after Ctrl-C.
"""

import io
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pagegate.deploy import agent_cli
from pagegate.deploy.bench_cli import bench_app
from pagegate.deploy.keys_cli import keys_app

EXIT_REFUSED_PAGE = 1
EXIT_USAGE = 2

app = typer.Typer(
    help="The gate in front of the save: compile, render, measure and photograph pages before they are committed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
user_app = typer.Typer(help="Users and tokens of a running server, over HTTP.", no_args_is_help=True)
app.add_typer(user_app, name="user")
lanes_app = typer.Typer(help="Lanes of a running server: look, pause, resume.")
app.add_typer(lanes_app, name="lanes")
jobs_app = typer.Typer(help="Jobs of a running server: look, cancel, retry.", no_args_is_help=True)
app.add_typer(jobs_app, name="jobs")

app.add_typer(keys_app, name="keys")
app.add_typer(bench_app, name="bench")

EnvFile = Annotated[Path | None, typer.Option("--env-file", help="Settings, as in deploy/.env.example.")]
Host = Annotated[str | None, typer.Option(help="Where to listen.")]
Port = Annotated[int | None, typer.Option(min=0, max=65535, help="0: any free port.")]
Url = Annotated[str | None, typer.Option(envvar="PAGEGATE_URL", help="The server. Default: what `pagegate lite` left.")]
Token = Annotated[
    str | None, typer.Option(envvar="PAGEGATE_TOKEN", help="An administrator's token. Default: the operator's.")
]
Data = Annotated[Path, typer.Option(envvar="PAGEGATE_DATA", help="The data folder of `pagegate lite`.")]
AsJson = Annotated[bool, typer.Option("--json", help="What the server answered, as JSON.")]
Lane = Annotated[str, typer.Argument(help="As `pagegate lanes` names it, or short: page, component, image, …")]
JobId = Annotated[int, typer.Argument(min=1, help="As `pagegate jobs list` shows it.")]
JobStatus = Literal["pending", "running", "succeeded", "failed", "cancelled", "skipped"]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"pagegate {version('pagegate')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Every command explains itself with --help."""


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Pages: .vue or .tsx.")],
    canvas: Annotated[str, typer.Option(help="1280x720, or 1280xauto for pages of their own height.")] = "1280x720",
    project: Annotated[
        Path | None,
        typer.Option(help="Where components/, assets/ and pages/ are. Default: beside each page."),
    ] = None,
    pictures: Annotated[Path | None, typer.Option(help="Keep the pictures in this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line for each page.")] = False,
) -> None:
    """Judge pages on this machine; nothing needs to run beforehand.

    Exit code 0: every page may be saved. 1: one is refused. 2: the machine failed, or the command makes no sense.
    """
    from pagegate.deploy.check import run_check
    from pagegate.deploy.pages import BadArguments

    try:
        code = run_check(files, canvas=canvas, project=project, pictures=pictures, as_json=as_json)
    except BadArguments as bad:
        for problem in bad.problems:
            typer.echo(f"pagegate check: {problem}", err=True)
        raise typer.Exit(EXIT_USAGE) from None
    raise typer.Exit(code)


@app.command()
def preview(
    path: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="A folder of pages, or one page.")],
    canvas: Annotated[str, typer.Option(help="1280x720, or 1280xauto for pages of their own height.")] = "1280x720",
    project: Annotated[
        Path | None, typer.Option(help="Where components/, assets/ and pages/ are. Default: beside the page.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = 0,
) -> None:
    """Look at pages of this machine in a browser, and turn them with the keyboard; nothing needs to run beforehand."""
    from pagegate.deploy.pages import BadArguments
    from pagegate.deploy.preview import run_preview

    try:
        code = run_preview(path, canvas=canvas, project=project, host=host, port=port)
    except BadArguments as bad:
        for problem in bad.problems:
            typer.echo(f"pagegate preview: {problem}", err=True)
        raise typer.Exit(EXIT_USAGE) from None
    raise typer.Exit(code)


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of pages, or one with pages/ in it.")],
    out: Annotated[Path, typer.Option(help="The zip to write.")] = Path("site.zip"),
    canvas: Annotated[str, typer.Option(help="1280x720, or 1280xauto for pages of their own height.")] = "1280x720",
    project: Annotated[
        Path | None, typer.Option(help="Where components/, assets/ and pages/ are. Default: beside the pages.")
    ] = None,
    clean_routes: Annotated[bool, typer.Option(help="A folder for each page (/code/) instead of /#code.")] = False,
) -> None:
    """Build the pages of a folder as a site in a zip; any static server can serve it. Nothing needs to run beforehand.

    Exit code 0: the zip is there. 1: a page is refused. 2: the machine failed, or the command makes no sense.
    """
    from pagegate.deploy.build import run_build
    from pagegate.deploy.pages import BadArguments

    try:
        routes: Literal["hash", "clean"] = "clean" if clean_routes else "hash"
        code = run_build(folder, out=out, canvas=canvas, project=project, routes=routes)
    except BadArguments as bad:
        for problem in bad.problems:
            typer.echo(f"pagegate build: {problem}", err=True)
        raise typer.Exit(EXIT_USAGE) from None
    raise typer.Exit(code)


@app.command()
def lite(
    data: Data = Path("data"),
    host: Annotated[str, typer.Option(help="Where the Backend listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The Backend's port; 0: any free one.")] = 8080,
    env_file: EnvFile = None,
) -> None:
    """Backend, Runtime and Renderer on one machine, under one supervisor, with everything in one folder."""
    from pagegate.deploy.lite import run_lite

    raise typer.Exit(run_lite(data, host, port, env_file))


@app.command()
def serve(env_file: EnvFile = None, host: Host = None, port: Port = None) -> None:
    """The Backend: API, jobs, storage. Never starts a browser."""
    _process("serve", env_file, backend_host=host, backend_port=port)


@app.command()
def runtime(env_file: EnvFile = None, host: Host = None, port: Port = None) -> None:
    """The Runtime: compiles pages with Vite."""
    _process("runtime", env_file, runtime_host=host, runtime_port=port)


@app.command()
def renderer(
    env_file: EnvFile = None,
    host: Host = None,
    port: Port = None,
    print_profile: Annotated[
        bool, typer.Option("--print-profile", help="Print the render profile and its digest, then end.")
    ] = False,
) -> None:
    """The Renderer: looks at pages with one Chromium at a time."""
    if print_profile:
        from pagegate.deploy.renderer_process import print_profile as show

        raise typer.Exit(show(env_file))
    _process("renderer", env_file, renderer_host=host, renderer_port=port)


@user_app.command("create")
def user_create(
    name: Annotated[str, typer.Argument(help="How people call the user.")],
    admin: Annotated[bool, typer.Option("--admin", help="May manage users.")] = False,
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Create a user and print its first token, which is shown this once."""
    from pagegate.deploy.users import create_user

    raise typer.Exit(create_user(name, admin=admin, server=_server(url, token, data)))


@user_app.command("list")
def user_list(url: Url = None, token: Token = None, data: Data = Path("data")) -> None:
    """List users and their tokens."""
    from pagegate.deploy.users import list_users

    raise typer.Exit(list_users(_server(url, token, data)))


@user_app.command("revoke")
def user_revoke(
    token_id: Annotated[int, typer.Argument(help="As `pagegate user list` shows it.")],
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Revoke a token."""
    from pagegate.deploy.users import revoke_token

    raise typer.Exit(revoke_token(token_id, _server(url, token, data)))


@lanes_app.callback(invoke_without_command=True)
def lanes(
    context: typer.Context,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Show every lane: depths, ages, lag, rescues, and what runs where."""
    if context.invoked_subcommand is not None:
        _refuse_options_before(context, context.invoked_subcommand)
        return
    from pagegate.deploy.operating import show_lanes

    raise typer.Exit(show_lanes(_server(url, token, data), as_json=as_json))


@lanes_app.command("pause")
def lanes_pause(lane: Lane, url: Url = None, token: Token = None, data: Data = Path("data")) -> None:
    """Let no replica claim from a lane, through restarts too; running jobs go on."""
    from pagegate.deploy.operating import change_lane

    raise typer.Exit(change_lane(_server(url, token, data), lane, "pause"))


@lanes_app.command("resume")
def lanes_resume(lane: Lane, url: Url = None, token: Token = None, data: Data = Path("data")) -> None:
    """Let a paused lane be claimed from again."""
    from pagegate.deploy.operating import change_lane

    raise typer.Exit(change_lane(_server(url, token, data), lane, "resume"))


@jobs_app.command("list")
def jobs_list(
    lane: Annotated[
        str | None, typer.Option(help="As `pagegate lanes` names it, or short: component. Default: page writes.")
    ] = None,
    status: Annotated[JobStatus | None, typer.Option(help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    before: Annotated[int | None, typer.Option(min=1, help="Only jobs with a smaller id: the next page.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """List the jobs of one lane, newest first."""
    from pagegate.deploy.operating import list_jobs

    wanted = {"lane": lane, "status": status, "limit": limit, "before": before}
    raise typer.Exit(list_jobs(_server(url, token, data), wanted, as_json=as_json))


@jobs_app.command("show")
def jobs_show(
    lane: Lane,
    job_id: JobId,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
    data: Data = Path("data"),
) -> None:
    """Show everything about one job."""
    from pagegate.deploy.operating import show_job

    raise typer.Exit(show_job(_server(url, token, data), lane, job_id, as_json=as_json))


@jobs_app.command("cancel")
def jobs_cancel(lane: Lane, job_id: JobId, url: Url = None, token: Token = None, data: Data = Path("data")) -> None:
    """Cancel a job: a pending one ends now, a running one soon."""
    from pagegate.deploy.operating import change_job

    raise typer.Exit(change_job(_server(url, token, data), lane, job_id, "cancel"))


@jobs_app.command("retry")
def jobs_retry(lane: Lane, job_id: JobId, url: Url = None, token: Token = None, data: Data = Path("data")) -> None:
    """Retry a failed job as a new one, as long as nobody was told of its failure."""
    from pagegate.deploy.operating import change_job

    raise typer.Exit(change_job(_server(url, token, data), lane, job_id, "retry"))


def _refuse_options_before(context: typer.Context, command: str) -> None:
    """An option that stands before the subcommand would silently not be the subcommand's."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"options stand behind `{command}`, not before it")


def _server(url: str | None, token: str | None, data: Path) -> Any:
    from pagegate.deploy.talking import Server

    return Server(url, token, data)


def _process(name: str, env_file: Path | None, **given: Any) -> None:
    from pagegate.deploy.process import run_process

    raise typer.Exit(run_process(name, env_file, **given))


agent_cli.register(app)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a narrow locale costs a character, not the command
    try:
        app(prog_name="pagegate")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
