"""The commands that measure: `bench` and what it has. Words and options only."""

from pathlib import Path
from typing import Annotated

import typer

bench_app = typer.Typer(help="Measure pagegate beside what people do without it; ratios in one run.")


@bench_app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    rounds: Annotated[int, typer.Option(min=3, max=200, help="Measured runs of each thing.")] = 20,
) -> None:
    """Measure pagegate beside what people do without it; ratios in one run."""
    if context.invoked_subcommand is not None:
        return
    from pagegate.deploy.bench.run import run_bench

    raise typer.Exit(run_bench(json_file, rounds))


@bench_app.command("compile")
def bench_compile(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    rounds: Annotated[int, typer.Option(min=3, max=200, help="Measured runs of each way to compile.")] = 20,
    rotations: Annotated[int, typer.Option(min=3, max=200, help="Rotations of the worker.")] = 30,
    compiles: Annotated[int, typer.Option(min=25, max=10_000, help="Compiles under the eye of the memory.")] = 200,
) -> None:
    """A compile beside Vite itself, the compile after a rotation of the worker, and the memory over its cycles."""
    from pagegate.deploy.bench.compiles import Plan, run_compile_bench

    raise typer.Exit(run_compile_bench(json_file, Plan(rounds, rotations, compiles)))


@bench_app.command("render")
def bench_render(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    rounds: Annotated[int, typer.Option(min=3, max=200, help="Measured runs of each way to look at a page.")] = 20,
) -> None:
    """An attempt beside full Chromium on demand, and the slot beside a bare loop of the same browser steps."""
    from pagegate.deploy.bench.renders import run_render_bench

    raise typer.Exit(run_render_bench(json_file, rounds))


@bench_app.command("queue")
def bench_queue(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Measured rounds of each thing.")] = 3,
    jobs: Annotated[int, typer.Option(min=100, max=100_000, help="Jobs that do nothing, in each round.")] = 2_000,
    finished: Annotated[
        int, typer.Option(min=0, max=10_000_000, help="How many ended jobs an old table holds; 0 leaves that out.")
    ] = 1_000_000,
) -> None:
    """The queue of durable jobs beside raw sqlite3 with the same transactions, and beside procrastinate."""
    from pagegate.deploy.bench.queue.run import Wanted, run_queue_bench

    raise typer.Exit(run_queue_bench(json_file, Wanted(jobs, rounds, finished)))


@bench_app.command("build")
def bench_build(
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
    rounds: Annotated[int, typer.Option(min=3, max=100, help="Measured builds of each way.")] = 7,
    copies: Annotated[int, typer.Option(min=1, max=50, help="The sample's pages, so many times over.")] = 1,
    upload_mb: Annotated[int, typer.Option(min=10, max=500, help="Size of the large upload, in MB.")] = 200,
) -> None:
    """A site of the sample's passed pages beside `vite build` of the same, and the memory that an upload costs."""
    from pagegate.deploy.bench.builds import Plan, run_build_bench

    raise typer.Exit(run_build_bench(json_file, Plan(rounds, copies, upload_mb)))
