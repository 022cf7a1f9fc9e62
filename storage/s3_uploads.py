"""Multipart uploads that nobody will finish: listed and aborted (B2, case 50).

Owns nothing. A writer that ends, well or not, leaves no upload open; one whose process was killed does, and a bucket
keeps its parts where no list of objects shows them. These two calls of the S3 protocol are the ones that the object
store's library has no words for, so they are signed here (AWS Signature Version 4).

Without keys in the settings or the environment (a machine's own role) there is nothing to sign with, and a bucket may
forbid the listing: then nothing is done, and the bucket's own rule for unfinished uploads has to do it.
"""

import hashlib
import hmac
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

import structlog

log = structlog.get_logger()

_UNSIGNED = "UNSIGNED-PAYLOAD"
_ANSWER_BYTES_MAX = 4 * 1024 * 1024
_PAGES_MAX = 100


@dataclass(frozen=True)
class Keys:
    """What requests are signed with."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)

    @classmethod
    def find(cls, access_key_id: str, secret_access_key: str) -> "Keys | None":
        """Those of the settings, else those of the environment."""
        if access_key_id:
            return cls(access_key_id, secret_access_key)
        known = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
        return cls(*known, os.environ.get("AWS_SESSION_TOKEN", "")) if all(known) else None


@dataclass(frozen=True)
class _Upload:
    key: str
    upload_id: str
    begun_at: datetime


class OpenUploads:
    """The unfinished uploads of one bucket. Its calls block, and raise `OSError` when the server does not answer."""

    def __init__(self, bucket_url: str, region: str, keys: Keys | None, timeout_s: float) -> None:
        self._url, self._region, self._keys, self._timeout_s = bucket_url.rstrip("/"), region, keys, timeout_s
        self._told = False

    def abort_older(self, prefix: str, before: datetime) -> int:
        """Abort what was begun below `prefix` before that moment; answers how many."""
        if self._keys is None:
            return 0
        try:
            old = [upload for upload in self._list(prefix) if upload.begun_at < before]
        except urllib.error.HTTPError as error:
            return self._cannot(f"the server answered {error.code}")
        except (ElementTree.ParseError, ValueError):
            return self._cannot("the answer is of another shape")
        for upload in old:
            try:
                self._ask("DELETE", f"/{quote(upload.key)}", {"uploadId": upload.upload_id})
            except urllib.error.HTTPError as error:
                if error.code != 404:  # another replica was quicker
                    raise
        return len(old)

    def _cannot(self, reason: str) -> int:
        """Said once: it is asked every minute."""
        if not self._told:
            self._told = True
            log.warning("object_store.uploads_hidden", reason=reason, hint="Let the bucket abort unfinished uploads.")
        return 0

    def _list(self, prefix: str) -> Iterator[_Upload]:
        after: dict[str, str] = {}
        for _ in range(_PAGES_MAX):
            page = ElementTree.fromstring(self._ask("GET", "", {"uploads": "", "prefix": prefix, **after}))  # noqa: S314 - the operator's own server
            for found in page.iterfind("{*}Upload"):
                said = {name: found.findtext(f"{{*}}{name}") or "" for name in ("Key", "UploadId", "Initiated")}
                if said["Key"].startswith(prefix):
                    yield _Upload(said["Key"], said["UploadId"], datetime.fromisoformat(said["Initiated"]))
            if page.findtext("{*}IsTruncated") != "true":
                return
            after = {
                "key-marker": page.findtext("{*}NextKeyMarker") or "",
                "upload-id-marker": page.findtext("{*}NextUploadIdMarker") or "",
            }

    def _ask(self, method: str, path: str, query: Mapping[str, str]) -> bytes:
        assert self._keys is not None
        asked = canonical_query(query)
        url = self._url + path
        headers = sign(self._keys, self._region, method, url, asked, datetime.now(UTC))
        request = urllib.request.Request(f"{url}?{asked}", method=method, headers=headers)  # noqa: S310 - the operator's own address
        with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310
            answered: bytes = answer.read(_ANSWER_BYTES_MAX)
            return answered


def canonical_query(query: Mapping[str, str]) -> str:
    """A query as it is sent and signed. Pure."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items()))


def sign(keys: Keys, region: str, method: str, url: str, query: str, now: datetime) -> dict[str, str]:
    """The headers of a request without a body, signed; `url` is quoted and has no query. Pure."""
    at = urlsplit(url)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": at.netloc, "x-amz-content-sha256": _UNSIGNED, "x-amz-date": moment}
    if keys.session_token:
        headers["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(headers))
    lines = [f"{name}:{headers[name]}" for name in sorted(headers)]
    canonical = "\n".join([method, at.path or "/", query, *lines, "", names, _UNSIGNED])
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    wanted = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, wanted.encode(), "sha256").hex()
    del headers["host"]  # the library sends it, the same
    credential = f"Credential={keys.access_key_id}/{scope}"
    headers["Authorization"] = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
    return headers
