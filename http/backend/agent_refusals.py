"""The refusals of the built-in agent's routes: code → status, what it means, the next step; and error → code."""

from pagegate.actors.agents.runs import AgentUnavailable, AlreadyWrote, RunNotEnded, RunNotRetryable
from pagegate.storage.credentials import CredentialNameTaken, CredentialNotFound
from pagegate.storage.sessions import SessionBusy, SessionNotFound

AGENT_REFUSALS: dict[str, tuple[int, str, str]] = {
    "AI_SESSION_NOT_FOUND": (404, "There is no such session, or you are not a member of its workspace.", ""),
    "AI_SESSION_BUSY": (
        409,
        "A run of this session has not ended.",
        "Wait for it or cancel it, or begin a new session.",
    ),
    "AI_RUN_NOT_ENDED": (409, "Only a run that is over can be retried.", "Wait for it, or cancel it."),
    "AI_RUN_NOT_RETRYABLE": (409, "This run was not the built-in agent's.", "Its agent submits its calls again."),
    "AI_RUN_ALREADY_WROTE": (
        409,
        "The run had saved pages before it ended.",
        "Look at them; then retry with `written_seen: true`, and the agent is told of them too.",
    ),
    "AI_AGENT_UNAVAILABLE": (503, "The server executes no runs of its own just now.", "Try again in a few seconds."),
    "AI_CREDENTIAL_NOT_FOUND": (404, "You have no such credential.", "`GET /model-credentials` lists yours."),
    "AI_CREDENTIAL_NAME_TAKEN": (
        409,
        "You have a credential of this name.",
        "Choose another name, or delete it first.",
    ),
    "AI_CREDENTIAL_REFUSED": (
        422,
        "The provider does not accept this key for this model.",
        "Correct the key or the model's name; nothing was saved.",
    ),
    "AI_CREDENTIALS_UNAVAILABLE": (
        503,
        "This server has no key to encrypt credentials with.",
        "The operator sets AI_SECRET_ENCRYPTION_KEY.",
    ),
    "AI_MODEL_BASE_URL_NOT_ALLOWED": (
        422,
        "This server asks models at other addresses only.",
        "The operator lists allowed addresses in AI_MODEL_BASE_URLS.",
    ),
    "AI_MODEL_UNREACHABLE": (
        503,
        "The key could not be tried: the provider does not answer.",
        "Try again in a while; nothing was saved.",
    ),
    "WEBHOOK_NOT_FOUND": (404, "The project has no webhook.", "Set one with PUT."),
    "WEBHOOK_URL_NOT_ALLOWED": (
        422,
        "This server sends no webhooks to this address.",
        "Use an https:// address in the public internet; the operator may allow others in WEBHOOK_ALLOWED_URLS.",
    ),
}

CODE_OF_AGENT_ERROR: dict[type[Exception], str] = {
    SessionNotFound: "AI_SESSION_NOT_FOUND",
    SessionBusy: "AI_SESSION_BUSY",
    RunNotEnded: "AI_RUN_NOT_ENDED",
    RunNotRetryable: "AI_RUN_NOT_RETRYABLE",
    AlreadyWrote: "AI_RUN_ALREADY_WROTE",
    AgentUnavailable: "AI_AGENT_UNAVAILABLE",
    CredentialNotFound: "AI_CREDENTIAL_NOT_FOUND",
    CredentialNameTaken: "AI_CREDENTIAL_NAME_TAKEN",
}

# Their text was written for clients.
SPEAKING = (SessionBusy, RunNotEnded, RunNotRetryable, AlreadyWrote)
