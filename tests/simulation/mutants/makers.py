"""Components, pictures and sizes of files: what is noted, kept, charged, saved late (A1-A3, D4, V9)."""

from pagegate.actors.jobs import call_job, image_generation
from pagegate.storage import asset_ratios, components, images, jobs
from tests.simulation.mutant import UNFENCED, Mutant, mutant

_IMAGES = (
    Mutant(images, "note_sent", "no fence", (UNFENCED,), ("lost words of a picture", "lost pictures")),
    Mutant(images, "note_nothing_made", "no fence", (UNFENCED,), ("lost words of a picture",)),
    mutant(
        image_generation.ImageGeneration,
        "_ask",
        "nobody notes that it is sent",
        "await images.note_sent(tx, job.lease, access.sent_to)",
        "pass",
        "request nobody heard of",
        "lost pictures",
    ),
    mutant(
        image_generation.ImageGeneration,
        "_ask",
        "the answer is not kept",
        "await self._stage(plan.request_key, picture.content)",
        "pass",
        "paid picture survives a kill",
    ),
    mutant(
        image_generation.ImageGeneration,
        "_find_answer",
        "nobody looks",
        "if job.row.sent_at_ms is None and job.row.retry_of is None:",
        "if True:",
        "paid picture survives a kill",
        "lost pictures",
    ),
    mutant(
        image_generation,
        "may_send",
        "to whom it was charged",
        "return access.keys_honoured and",
        "return",
        "request nobody heard of",
        "lost pictures",
    ),
    mutant(
        image_generation.ImageGeneration,
        "_failed",
        "what may have been made is forgotten",
        "if not failed.perhaps_made and job.row.sent_to is None:",
        "if job.row.sent_to is None:",
        "lost pictures",
    ),
    mutant(
        image_generation.ImageGeneration,
        "_failed",
        "what an earlier request made is forgotten",
        "if not failed.perhaps_made and job.row.sent_to is None:",
        "if not failed.perhaps_made:",
        "refusal after a lost request",
    ),
    mutant(
        image_generation.ImageGeneration,
        "_failed",
        "tried again where that is charged",
        "elif failed.perhaps_made and not access.keys_honoured:",
        "elif False:",
        "lost pictures",
    ),
)

_COMPONENTS = (
    mutant(components, "_add_checked", "over any version", ", condition)", ")", "makers"),
    mutant(
        jobs.kinds,
        "goes_behind",
        "pages before components and pictures of their step",
        "return ([] if own is None else [(schema.metadata.tables[kind], own)]) + others",
        "return [] if own is None else [(schema.metadata.tables[kind], own)]",
        "makers",
        "lost pictures",
    ),
    mutant(
        call_job,
        "ending",
        "without a last look",
        "end = await why_stopped(tx, job)",
        "end = None",
        "revocations",
        "makers",
    ),
)

_LATE = ("size that comes late", "files come and go")

_RATIOS = (
    mutant(asset_ratios, "_record", "of any version", ", unknown, current)", ", unknown)", *_LATE),
    mutant(asset_ratios, "_record", "over an earlier one", ", unknown, current)", ", current)", *_LATE),
    mutant(asset_ratios, "_due", "also while one is measured", ", ~busy)", ")", "files come and go"),
)

MUTANTS = (*_IMAGES, *_COMPONENTS, *_RATIOS)

SURVIVORS = {
    "ImageGeneration._failed: tried again where that is charged": (
        "the next attempt finds the note of the request, and does not send another one"
    ),
    "asset_ratios._due: also while one is measured": "among live jobs there is one for a file: a unique index keeps it",
}
