"""POST /jobs: durable before it is answered. One job is the hot path of the whole API."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import UNSET, UnsetType
from starlette.responses import Response

from tgpu.api import image_rules, need_rules
from tgpu.api.access import Sight, sight_of
from tgpu.api.accounts import Account
from tgpu.api.audit_note import note
from tgpu.api.cwd_reach import CwdReach, kept_on, needs_its_directory
from tgpu.api.decode import MIB, check_single, decode, decode_shape, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.image_rules import pinned_down
from tgpu.api.job_form import MAX_BULK, JobAsked, ManyJobs, ManyRaw, Submission
from tgpu.api.job_rules import Defaults, spec_of
from tgpu.api.job_terms import check_priority, terms_for, under_terms
from tgpu.api.job_view import JobOut, job_out
from tgpu.api.needs import SUBMIT
from tgpu.api.never_words import for_tenant
from tgpu.api.plan_preview import PREVIEW_EXAMPLE, SubmissionPreview, refused, submission_preview
from tgpu.api.ports import NoLeaderError
from tgpu.api.priority_classes import default_class
from tgpu.api.private_tmp import TmpNotes, check_shared_tmp
from tgpu.api.problems import ProblemError, as_problem, bad_request, forbidden, inside, unprocessable
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import JOB_EXAMPLE
from tgpu.api.secret_rules import names_in_store
from tgpu.api.series_rules import with_series
from tgpu.api.services import Services
from tgpu.api.strict_json import check_strict, check_strict_around
from tgpu.api.timing_rules import check_in_time, timing_of, with_wait_of_pool
from tgpu.api.workdir import Workdirs
from tgpu.domain.job import Job, JobSpec, Request
from tgpu.domain.lifecycle import Status
from tgpu.domain.snapshot import Snapshot
from tgpu.store import timings
from tgpu.store.demand import within_limits
from tgpu.store.port import IdempotencyKey

_MAX_BODY = 64 * MIB
_MAX_KEY = 200
_TOO_MANY = 429
_SERVER_ERROR = 500
_MOST_TASKS = 50_000  # of all jobs that are submitted at once
_SLICE = 200  # jobs of a bulk that are judged before others get a turn
_submission = msgspec.json.Decoder(Submission)
_many = msgspec.json.Decoder(ManyRaw)
_one_of_many = msgspec.json.Decoder(JobAsked)


class JobIds(msgspec.Struct, kw_only=True):
    """The ids of many submitted jobs, in the order they were sent."""

    job_ids: list[int]
    tmp_note: str | UnsetType = UNSET
    """What their submitter should know of their /tmp."""


class Submitter:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._defaults = Defaults.of(services.settings)
        self._workdirs = Workdirs()
        self._reach = CwdReach(services.settings)
        self._tmp_notes = TmpNotes(services.settings, services.store)

    async def submit(self, call: Call) -> Response:
        dry_run = call.query.choice("dry_run", ("true", "false", "report"), "false")
        try:
            return await self._submit(call, is_dry=dry_run != "false")
        except Exception as error:
            if dry_run != "report":
                raise
            problem = as_problem(error)
            if problem.status == _TOO_MANY or problem.status >= _SERVER_ERROR:  # not because of the jobs
                raise problem from error
            return json_reply(refused(problem))

    async def _submit(self, call: Call, *, is_dry: bool) -> Response:
        raw = await read_body(call, _MAX_BODY)
        asked = decode_shape(_submission, raw)
        if asked.jobs is not UNSET:
            jobs = [bytes(job) for job in decode_shape(_many, raw).jobs]
            check_strict_around(raw, jobs)
            specs = await self._judge_many(call, jobs)
        else:
            check_single(raw)
            check_strict(raw)
            need_rules.alone(asked)
            specs = [await self._judge(call, asked)]
        many = asked.jobs is not UNSET
        if self._services.settings.pin_images == "on" and any(
            group.container for spec in specs for group in spec.groups
        ):
            specs = await pinned_down(specs, self._services.live, many=many)
        await self._check_fit(call, specs, many=many)
        await need_rules.check_others(call, specs, many=many)
        if is_dry:
            return await self._previewed(call, specs)
        return await self._recorded(call, specs, raw, many=many)

    async def _previewed(self, call: Call, specs: Sequence[JobSpec]) -> Response:
        """All that a submission checks, and what would become of it; nothing is stored."""
        async with self._services.preview_turns.turn(call.caller.user):
            tried = await self._services.store.try_submit(specs, own_token(call))
            warnings = list(filter(None, [await self._tmp_notes.of(specs)]))
            return json_reply(await submission_preview(call, specs, tried, warnings))

    async def again(self, call: Call, spec: JobSpec, raw: bytes) -> Response:
        """A job as it was once judged, by what has changed since. `raw`: what tells this call from others."""
        await self.check_again(call, spec)
        return await self._recorded(call, [spec], raw, many=False)

    async def check_again(self, call: Call, spec: JobSpec) -> None:
        """Whether there still is all that it needs. Raises ProblemError."""
        for group in spec.groups:
            if group.secret_env:
                await self._check_secrets(spec.user, group.secret_env)
        if spec.snapshot is not None:
            await self._check_snapshot(spec.user, spec.snapshot)
        if spec.shared_tmp:
            check_shared_tmp(spec.groups, allowed=self._defaults.shared_tmp)
        await self._check_fit(call, [spec], many=False)
        await need_rules.check_others(call, [spec], many=False)

    async def _recorded(self, call: Call, specs: Sequence[JobSpec], raw: bytes, *, many: bool) -> Response:
        at_ms = self._services.now_ms()
        submitted = await self._services.store.submit(specs, at_ms, _key(call, raw), own_token(call))
        headers = {"Idempotent-Replay": "true"} if submitted.replayed else {}
        if not submitted.replayed:
            self._services.metrics.count_submissions(len(specs))
            await self._note(call, specs, submitted.job_ids)
        status = 200 if submitted.replayed else 201
        tmp_note = await self._tmp_notes.of(specs) or UNSET
        if many:
            return json_reply(JobIds(job_ids=list(submitted.job_ids), tmp_note=tmp_note), status, headers)
        job_id = submitted.job_ids[0]
        headers["Location"] = f"/jobs/{job_id}"
        count = specs[0].task_count
        counts = None if count == 1 else {Status.PENDING: count}
        held, timing = job_id in submitted.held, timings.at_first(specs[0])
        job = Job(job_id, specs[0], Status.PENDING, at_ms, held=held, counts=counts, timing=timing)
        if submitted.replayed:
            job = await self._services.store.job(job_id) or job
        # What the caller just sent is no secret to them, even if it is somebody else's job now.
        out = job_out(job, _sight(call, job))
        out.tmp_note = tmp_note
        return json_reply(out, status, headers)

    async def _judge_many(self, call: Call, jobs: Sequence[bytes]) -> list[JobSpec]:
        if not 0 < len(jobs) <= MAX_BULK:
            raise unprocessable("jobs", f"jobs must have 1 to {MAX_BULK} jobs; got {len(jobs)}")
        specs: list[JobSpec] = []
        named: list[need_rules.Named] = []
        for index, raw in enumerate(jobs):
            at = f"jobs[{index}]"
            check_single(raw)
            asked = decode(_one_of_many, raw, at)
            try:
                specs.append(await self._judge(call, asked))
            except ProblemError as problem:
                raise inside(problem, at) from None
            named.append((asked.name, asked.needs))
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        total = sum(spec.first_born for spec in specs)
        if total > _MOST_TASKS:
            raise unprocessable("jobs", f"jobs may have at most {_MOST_TASKS} tasks together; got {total}")
        return need_rules.linked(specs, named)

    async def _judge(self, call: Call, asked: JobAsked) -> JobSpec:
        account, owner, token = call.caller.account, call.caller.rights, call.caller.token
        if asked.user_id is not None and asked.user_id != account.name:
            if not call.caller.is_admin:
                raise forbidden(f"user_id: {account.name} may submit only their own jobs; leave it out")
            other = await self._services.accounts.by_name(asked.user_id)
            if other is None:
                raise unprocessable(
                    "user_id", f"user_id: there is no account {asked.user_id[:80]!r} on this machine"
                )
            account, owner = other, await call.identity.rights_of(other)
        tenant_id, terms = await terms_for(call, asked.tenant_id, owner)
        cwd = asked.cwd if asked.cwd is not None else account.home
        usual = default_class(terms, token)
        spec = spec_of(asked, account.name, cwd, self._defaults, tenant_id, usual)
        check_priority(call, spec)
        spec = with_wait_of_pool(under_terms(call.caller, spec, terms), self._services.settings)
        timing, needs = timing_of(asked, call.caller.user), need_rules.needs_of(asked)
        if timing is not None or needs:
            spec = replace(spec, timing=timing, needs=needs)
            check_in_time(spec, self._services.now_ms())
        spec = with_series(spec, asked, call.caller.user)
        for group in spec.groups:
            if group.secret_env:
                await self._check_secrets(account.name, group.secret_env)
        if spec.snapshot is not None:
            await self._check_snapshot(spec.user, spec.snapshot)
        return await self._where_its_files_are(spec, asked.submit_host, call, account)

    async def _where_its_files_are(
        self, spec: JobSpec, submit_host: str | None, call: Call, account: Account
    ) -> JobSpec:
        """Each group only where its directory is, which must be there as far as this server can see."""
        for index, group in enumerate(spec.groups):
            if not needs_its_directory(spec, group):
                continue
            host = self._reach.only_host(group.cwd, submit_host, local_caller=call.is_local)
            if self._reach.can_be_checked(host):
                wrong = await self._workdirs.check(group.cwd, account)
                if wrong is not None:
                    raise unprocessable("cwd", wrong)
            spec = spec if host is None else kept_on(spec, index, host)
        return spec

    async def _check_snapshot(self, user: str, snapshot: Snapshot) -> None:
        if not await self._services.snapshots.has(user, snapshot.digest):
            raise unprocessable(
                "snapshot",
                f"snapshot: {user} has no {snapshot.digest} here, or no more: submit with --snapshot from "
                "its directory, or put it first: PUT /snapshots",
            )

    async def _check_secrets(self, user: str, secret_env: Mapping[str, str]) -> None:
        wanted = names_in_store(secret_env)
        known = {name for name, _ in await self._services.store.secret_names(user)} if wanted else set()
        for name in wanted:
            if name not in known:
                raise unprocessable(
                    "secret_env",
                    f"secret_env: {user} has no secret {name}; set it first: tgpu secret set {name}",
                )

    async def _note(self, call: Call, specs: Sequence[JobSpec], job_ids: Sequence[int]) -> None:
        """Submitting in another's name is for the audit log; one's own jobs tell of themselves."""
        for user in sorted({spec.user for spec in specs} - {call.caller.user}):
            ids = [job_id for job_id, spec in zip(job_ids, specs, strict=True) if spec.user == user]
            await note(call, "job.submit", user, after={"job_ids": ids})

    async def _check_fit(self, call: Call, specs: Sequence[JobSpec], *, many: bool) -> None:
        pages = await call.book.pages()
        # As the store will keep them: GPUs of a model that is limited are given only by name.
        asked = [
            (index, within_limits(group.request, pages.effective_terms(spec.tenant_id).named_limits))
            for index, spec in enumerate(specs)
            for group in spec.groups
        ]
        try:
            verdicts = await self._services.live.never_fits([request for _, request in asked])
        except NoLeaderError:
            return  # a job may be left while nobody schedules; `why` will tell if it cannot run
        for (index, request), why_not in zip(asked, verdicts, strict=True):
            if why_not is not None:
                words = await for_tenant(self._services.live, why_not, request, specs[index])
                raise self._never(specs[index], index, words, many=many)
        await self._check_gangs(specs, asked, many=many)

    async def _check_gangs(
        self, specs: Sequence[JobSpec], asked: Sequence[tuple[int, Request]], *, many: bool
    ) -> None:
        """`asked`: the requests of all groups, in their order. Gangs that are alike are judged once."""
        if all(spec.gang is None for spec in specs):
            return
        requests = iter(asked)
        judged = set()
        for index, spec in enumerate(specs):
            members = [(next(requests)[1], group.tasks) for group in spec.groups]
            if spec.gang is None or (spec.gang, *members) in judged:
                continue
            judged.add((spec.gang, *members))
            try:
                why_not = await self._services.live.gang_never_fits(spec.gang, members)
            except NoLeaderError:
                return
            if why_not is not None:
                raise self._never(spec, index, why_not, many=many)

    def _never(self, spec: JobSpec, index: int, why_not: str, *, many: bool) -> ProblemError:
        at = f"jobs[{index}] " if many else ""
        more = f"{self._reach.remark(spec)}{image_rules.remark(why_not)}"
        return ProblemError(422, "never-fits", f"{at}can never run here: {why_not}{more}")


def _sight(call: Call, job: Job) -> Sight:
    return sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)


def own_token(call: Call) -> int | None:
    """That the caller submits with: the job itself has no more than that."""
    return None if call.caller.token is None else call.caller.token.token_id


def capped_token(call: Call) -> int | None:
    token = call.caller.token
    if token is None or (token.jobs_left is None and token.gpu_ms_left is None):
        return None
    return token.token_id


def _key(call: Call, raw: bytes) -> IdempotencyKey | None:
    # Not by the framework's own table of headers: making one costs as much as the rest of a caller's rights.
    given = [value for name, value in call.request.scope["headers"] if name == b"idempotency-key"]
    if not given:
        return None
    key = given[0].decode("latin-1")
    if not 0 < len(key) <= _MAX_KEY or not key.isprintable():
        raise bad_request(f"Idempotency-Key must be 1 to {_MAX_KEY} printable characters")
    return IdempotencyKey(call.caller.user, key, hashlib.sha256(raw).hexdigest())


def endpoints(services: Services) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST",
            "/jobs",
            Submitter(services).submit,
            SUBMIT,
            "jobs",
            "Submit a job, or many",
            'Takes one job, or `{"jobs": […]}` with up to 10,000, of which all are submitted or none. When '
            "it answers, the jobs are on disk. With an Idempotency-Key a repeated request gives the first "
            "answer again. With `dry_run`, it answers what a submission would lead to, and stores nothing.",
            {
                201: Answer("Submitted.", (JobOut, JobIds), JOB_EXAMPLE, headers={"Location": "/jobs/42"}),
                200: Answer(
                    "It had been submitted before with this key; or, with `dry_run`, the preview.",
                    (JobOut, JobIds, SubmissionPreview),
                    PREVIEW_EXAMPLE,
                    headers={"Idempotent-Replay": "true"},
                ),
            },
            errors=(409, 413, 422),
            adds_data=True,
            params=(
                Param(
                    "Idempotency-Key",
                    "Makes repeating the request harmless.",
                    {"type": "string", "maxLength": _MAX_KEY},
                    "6a1f0e",
                    where="header",
                ),
                Param(
                    "dry_run",
                    "Check the jobs and plan them, without submitting them. `report`: and answer 200 also if "
                    "they would be refused, with the reason in `refusal`.",
                    {"type": "string", "enum": ["true", "false", "report"]},
                    "false",
                ),
            ),
            body=Body(
                (JobAsked, ManyJobs),
                {
                    "one job": {"command": ["python", "train.py"], "gpu_request": 1, "time_limit_s": 3600},
                    "many jobs": {"jobs": [{"command": "echo one"}, {"command": "echo two"}]},
                },
            ),
        ),
    )
