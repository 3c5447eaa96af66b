"""The gRPC methods of `schedulerd.v1.Admin` that unregister an RM, and update or validate a configuration.

`protos/schedulerd/v1/admin.proto` describes the methods for clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NoReturn

import grpc

from schedulerd._generated.schedulerd.v1 import admin_pb2
from schedulerd._generated.si.v1 import si_pb2
from schedulerd.config import (
    PROBLEMS_MAX,
    PolicyGroupUnknown,
    Problem,
    QueueFile,
    QueueFileInvalid,
    matches,
    shorten,
)
from schedulerd.core.configuration.rules.reload import assess
from schedulerd.core.language.commands import StopCause, StopResourceManager, UpdateConfiguration
from schedulerd.core.language.facts.configuration import (
    ConfigurationAccepted,
    ConfigurationRejected,
    ConfigurationUpdated,
    Impact,
)
from schedulerd.core.state.step_context import ResourceManager
from schedulerd.daemon.access.identity import EVERYBODY, Identities
from schedulerd.daemon.access.methods import UnaryContext, bounded, unary
from schedulerd.daemon.access.rm_ids import rm_id_problem
from schedulerd.daemon.files.queue_files import Load, QueueFiles, reasons_of
from schedulerd.daemon.runtime.owner import Owner
from schedulerd.daemon.runtime.workers import Busy

ADMIN_SERVICE = admin_pb2.DESCRIPTOR.services_by_name["Admin"].full_name

LISTED_MAX = PROBLEMS_MAX
"""Maximum number of problems, of warnings and of differences in a response."""


class AdminService:
    """Implements the methods. `resource_managers` belongs to the scheduler and is read on its loop."""

    def __init__(
        self,
        owner: Owner,
        queue_files: QueueFiles,
        resource_managers: Mapping[str, ResourceManager],
        refuse: Callable[[str, str, list[str]], None],
        validate: Load,
        identities: Identities = EVERYBODY,
    ) -> None:
        """`refuse` reports a configuration that does not reach the scheduler: rmID, source, reasons.

        `validate` reads a text that is only validated. `identities` say which RMs a client may see.
        """
        self._owner = owner
        self._queue_files = queue_files
        self._resource_managers = resource_managers
        self._refuse = refuse
        self._validate = validate
        self._identities = identities

    async def unregister(
        self, request: admin_pb2.UnregisterResourceManagerRequest, context: UnaryContext
    ) -> admin_pb2.UnregisterResourceManagerResponse:
        """Responds when the RM's state is dropped and its streams are ending."""
        await self.check_registered(request.rmID, context)
        await (await self._owner.submit(StopResourceManager(request.rmID, StopCause.UNREGISTERED)))
        return admin_pb2.UnregisterResourceManagerResponse()

    async def update_configuration(
        self, request: si_pb2.UpdateConfigurationRequest, context: UnaryContext
    ) -> admin_pb2.UpdateConfigurationResponse:
        """Responds when the scheduler has decided."""
        rm_id = request.rmID
        await self.check_registered(rm_id, context)
        if not request.config and not request.policyGroup:
            reason = "config: is empty; send the text of a queue file, or name a policyGroup"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, reason)
        try:
            client = self._identities.client(context, rm_id)
            loaded = await self._queue_files.wanted(rm_id, request.config, request.policyGroup, client)
        except (PolicyGroupUnknown, QueueFileInvalid) as error:
            self._refuse(rm_id, "UpdateConfiguration", reasons_of(error, is_sent=bool(request.config)))
            problems = _problems(error.problems) if isinstance(error, QueueFileInvalid) else []
            return admin_pb2.UpdateConfigurationResponse(reason=bounded(str(error)), problems=problems)
        except Busy as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        extra = dict(request.extraConfig) or None
        command = UpdateConfiguration(rm_id, loaded.partitions, loaded.configuration, extra_config=extra)
        facts = await (await self._owner.submit(command, len(loaded.configuration.text)))
        told = next((fact for fact in facts if isinstance(fact, ConfigurationUpdated | ConfigurationRejected)), None)
        if told is None:  # the RM was unregistered during this call
            await self._abort_unregistered(rm_id, context)
        if isinstance(told, ConfigurationRejected):
            return admin_pb2.UpdateConfigurationResponse(reason=bounded("; ".join(told.reasons)))
        return admin_pb2.UpdateConfigurationResponse(
            success=True,
            oldConfig=told.replaced.text,
            warnings=_problems(loaded.warnings),
            impact=_impact(one for fact in facts if isinstance(fact, ConfigurationAccepted) for one in fact.impact),
        )

    async def validate_configuration(
        self, request: admin_pb2.ValidateConfigurationRequest, context: UnaryContext
    ) -> admin_pb2.ValidateConfigurationResponse:
        """Computes the impact on one moment of the state, between two turns of the scheduler."""
        if request.rmID:
            await self.check_registered(request.rmID, context)
        visible = self._identities.visible(sorted(self._resource_managers), context)
        answer = admin_pb2.ValidateConfigurationResponse(resourceManagers=visible)
        try:
            queue_file = await self._validate(request.config, "config")
        except QueueFileInvalid as error:
            answer.reason = bounded(str(error))
            answer.problems.extend(_problems(error.problems))
            return answer
        except Busy as error:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        answer.allowed = True
        answer.checksum = queue_file.checksum
        answer.warnings.extend(_problems(queue_file.warnings))
        if request.rmID:
            await self.check_registered(request.rmID, context)
            self._assess(request.rmID, queue_file, answer)
        return answer

    def _assess(self, rm_id: str, queue_file: QueueFile, answer: admin_pb2.ValidateConfigurationResponse) -> None:
        assessment = assess(self._resource_managers[rm_id], queue_file.partitions, matches)
        answer.allowed = not assessment.refusals
        answer.reason = bounded("; ".join(assessment.refusals))
        answer.impact.extend(_impact(assessment.impact))

    async def check_registered(self, rm_id: str, context: UnaryContext) -> None:
        """Aborts the call if the rmID is invalid or not registered."""
        problem = rm_id_problem(rm_id)
        if problem is not None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem)
        if rm_id not in self._resource_managers:
            await self._abort_unregistered(rm_id, context)

    async def _abort_unregistered(self, rm_id: str, context: UnaryContext) -> NoReturn:
        known = ", ".join(map(repr, self._identities.visible(sorted(self._resource_managers), context))) or "none"
        details = f"rmID: {rm_id!r} is not registered; registered are {known}"
        await context.abort(grpc.StatusCode.NOT_FOUND, bounded(details))

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """The handlers of all methods, to be added to a `grpc.aio` server."""
        return [
            grpc.method_handlers_generic_handler(
                ADMIN_SERVICE,
                {
                    "UnregisterResourceManager": unary(admin_pb2.UnregisterResourceManagerRequest, self.unregister),
                    "UpdateConfiguration": unary(si_pb2.UpdateConfigurationRequest, self.update_configuration),
                    "ValidateConfiguration": unary(admin_pb2.ValidateConfigurationRequest, self.validate_configuration),
                },
            )
        ]


def _problems(problems: Iterable[Problem]) -> list[admin_pb2.ConfigurationProblem]:
    return [
        admin_pb2.ConfigurationProblem(
            path=one.path, line=one.line or 0, value=shorten(one.value or ""), message=one.message
        )
        for one in islice(problems, LISTED_MAX)
    ]


def _impact(impact: Iterable[Impact]) -> list[admin_pb2.ConfigurationImpact]:
    return [
        admin_pb2.ConfigurationImpact(
            kind=one.kind, partition=one.partition, queue=one.queue, harms=one.harms, message=one.message
        )
        for one in islice(impact, LISTED_MAX)
    ]
