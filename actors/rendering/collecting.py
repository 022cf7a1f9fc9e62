"""Pictures that nobody will publish, collected (S5): every minute, by any number of replicas at once.

Owns nothing: temporary pictures go by their age, held ones by their row. A hold is taken away before its object is
deleted and forgotten after, so a kill in between leaves a row that the next pass finds. Published pictures have no
hold and are at other places than temporary ones: nothing here can touch them.
"""

import structlog

from pagegate.storage import screenshot_pictures as pictures
from pagegate.storage.engine import Database, DatabaseUnavailable
from pagegate.storage.objects import Objects, ObjectStoreUnavailable

log = structlog.get_logger()

_PAGE_HOLDS = 100


async def collect_pictures(db: Database, objects: Objects, temporary_ttl_s: float) -> None:
    """One pass: leftovers of cancels, refused transactions and crashes, and refused pages' pictures of pruned runs."""
    try:
        temporary = await objects.delete_older(pictures.TEMPORARY, temporary_ttl_s)
        held = await _collect_holds(db, objects)
    except (ObjectStoreUnavailable, DatabaseUnavailable) as error:
        log.warning("render.pictures.not_collected", reason=str(error))
        return
    if temporary or held:
        log.info("render.pictures.collected", temporary=temporary, held=held)


async def _collect_holds(db: Database, objects: Objects) -> int:
    collected = 0
    while True:
        async with db.read() as tx:
            page = await pictures.list_collectable(tx, _PAGE_HOLDS)
        mine = 0
        for hold in page:
            async with db.write() as tx:
                if not await pictures.begin_collecting(tx, hold.id):
                    continue  # published just now, or prolonged
            await objects.delete(hold.object_key)
            async with db.write() as tx:
                await pictures.end_collecting(tx, hold.id)
            mine += 1
        collected += mine
        if len(page) < _PAGE_HOLDS or not mine:
            return collected
