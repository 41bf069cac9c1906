"""Start of a task's first process: spawned as the supervisor's own user, or forked to become another.

A forked process looks up its user and makes its checkpoint folder among the machine's own mounts. It enters
the mounts of its task only to become that user in the next moment.
"""

import os

from tgpu.runner import checkpoint_folder, keyring, private_tmp, records, task
from tgpu.runner.cgroups.enclosure import Enclosure
from tgpu.runner.place import Order, Place
from tgpu.runner.private_tmp import PrivateTmp
from tgpu.runner.user_files import UserFiles

REASON_MAX = 2048


class TaskStart:
    """Of one attempt."""

    __slots__ = ("_enclosure", "_files", "_order", "_place", "_tmp", "refusals")

    def __init__(
        self,
        place: Place,
        order: Order,
        enclosure: Enclosure,
        tmp: PrivateTmp | None,
        files: UserFiles | None,
    ) -> None:
        self._place = place
        self._order = order
        self._enclosure = enclosure
        self._tmp = tmp
        self._files = files
        self.refusals = -1
        """Where a forked task says why it could not become the user's program."""

    def start(self, out_end: int, err_end: int) -> int:
        """The process's number. Raises Refusal or OSError."""
        own = self._place.own
        if own is not None and own.name == self._order.user and not self._must_fork():
            return self._spawn(own, out_end, err_end)
        return self._fork(out_end, err_end)

    def _must_fork(self) -> bool:
        order = self._order
        return order.once or order.pty or self._enclosure.by_fork or order.files is not None

    def _spawn(self, own: task.Account, out_end: int, err_end: int) -> int:
        """It inherits its mounts and its keyring from this process, which belongs to the same user."""
        order = self._order
        self._prepare_checkpoints(own)
        own.complete(order.env)
        keyring.renew()
        try:
            if self._tmp is not None:
                self._tmp.enter()
            task.reveal(order.env, order.secret_env)
            return task.spawn(order.argv, order.env, order.cwd, out_end, err_end)
        finally:
            if self._tmp is not None:
                self._tmp.leave()
            os.chdir(self._place.folder)

    def _fork(self, out_end: int, err_end: int) -> int:
        order, supervisor = self._order, os.getpid()
        self.refusals, refuse = os.pipe()
        child = self._enclosure.fork()
        if child:
            os.close(refuse)
            return child
        try:
            account = self._place.account(order.user)
            if order.pty:
                os.dup2(out_end, 0)
            self._prepare_checkpoints(account)
            os.dup2(out_end, 1)
            os.dup2(err_end, 2)
            account.complete(order.env)
            become = (account, supervisor, order.secret_env, self._files)
            most = order.bounds.user_pids
            task.become(
                order.argv, order.env, order.cwd, *become, terminal=order.pty, view=self._tmp, most_pids=most
            )
        except BaseException as error:  # noqa: BLE001  whatever it is, the user is told
            reason = str(error) if isinstance(error, task.Refusal) else f"{type(error).__name__}: {error}"
            os.write(refuse, reason.encode(errors="replace")[:REASON_MAX])
        finally:
            os._exit(127)

    def _prepare_checkpoints(self, account: task.Account) -> None:
        order = self._order
        is_hidden = self._tmp is not None and not private_tmp.is_for(order.checkpoint_dir)
        try:
            checkpoint_folder.prepare(order.checkpoint_dir, account, order.env, is_hidden=is_hidden)
        except OSError as error:
            raise task.Refusal(records.no_checkpoint_folder(error)) from None
