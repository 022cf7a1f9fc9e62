"""What only page mutation jobs have: a page, its code, and a place among the calls of a step (A2, S4)."""

from sqlalchemy import select

from pagegate.storage import schema
from pagegate.storage.engine import Tx
from pagegate.storage.lease import Lease, fenced_update


async def list_candidate_codes(tx: Tx, project_id: int) -> set[str]:
    """Page codes that live jobs of a project are going to create (S4)."""
    table = schema.ai_page_mutation_jobs
    claimed = select(table.c.candidate_code).where(
        table.c.project_id == project_id, table.c.candidate_code.is_not(None), schema.live(table)
    )
    return set((await tx.execute(claimed)).scalars())


async def find_earlier_version(tx: Tx, batch_id: int, page_code: str, position: int) -> int | None:
    """The page version that the nearest earlier call of the same step wrote, if one did (A2)."""
    table = schema.ai_page_mutation_jobs
    earlier = (
        select(schema.page_versions.c.number)
        .join(table, table.c.id == schema.page_versions.c.job_id)
        .where(table.c.batch_id == batch_id, table.c.page_code == page_code, table.c.position < position)
        .order_by(table.c.position.desc())
        .limit(1)
    )
    return (await tx.execute(earlier)).scalar()


async def change_candidate_code(tx: Tx, lease: Lease, code: str) -> None:
    """Give a creating job another code, because its own was taken meanwhile (S4); raises `LeaseLost`."""
    await fenced_update(tx, lease, candidate_code=code, page_code=code)
