"""How much runs may ask for (Q9, A7, A11): counts, bytes, seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunLimits:
    """Q9. A job that has not ended within its deadline is not tried again."""

    active_jobs_max: int = 16
    active_jobs_max_of: Mapping[str, int] = field(default_factory=dict)  # kinds of jobs with another limit
    batch_size_max: int = 16
    source_bytes_max: int = 1024 * 1024
    job_deadline_s: float = 1800.0


@dataclass(frozen=True)
class AgentLimits:
    """Of runs of the built-in agent.

    `concurrency`: answers that this process waits for at once, of new runs and of resumed ones each. `requests_max`:
    how often one run may ask its model. `repair_budget`: how many of its writes may be refused. `queue_wait_s`: how
    long a step waits for room in a full queue. `idle_timeout_s`: after so long without a sign of life a run is ended.
    """

    concurrency: int = 4
    requests_max: int = 50
    repair_budget: int = 8
    queue_wait_s: float = 120.0
    resume_lease_s: float = 60.0
    heartbeat_s: float = 15.0
    idle_timeout_s: float = 300.0
    sweep_s: float = 30.0
