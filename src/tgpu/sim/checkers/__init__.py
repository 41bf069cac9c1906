"""What must always hold, one promise per file; each checker believes only what it has seen itself."""

from tgpu.sim.checkers.acknowledged import AcknowledgedIsNeverLost
from tgpu.sim.checkers.attempts import OnceIsOnce, OneAttemptAfterReturn, OneLiveAttempt
from tgpu.sim.checkers.capacity import NothingBeyondCapacity
from tgpu.sim.checkers.commitment import NothingUncommitted
from tgpu.sim.checkers.drift import PictureTellsTheTruth
from tgpu.sim.checkers.failures import NobodyFails
from tgpu.sim.checkers.fencing import DeposedWriteNothing
from tgpu.sim.checkers.finality import FinalIsFinal
from tgpu.sim.checkers.gangs import GangsRunWhole
from tgpu.sim.checkers.hours import HoursAreThere
from tgpu.sim.checkers.lifecycle import OnlyLegalMoves
from tgpu.sim.checkers.preemption import NothingPreemptedForNothing, PreemptedIsNeverLost
from tgpu.sim.checkers.quota import QuotaAddsUp, QuotaHolds
from tgpu.sim.checkers.replaced import LostIsReplaced
from tgpu.sim.checkers.series import SeriesKeepTheirWord
from tgpu.sim.checkers.truth import TrueEndings
from tgpu.sim.checkers.waiting import NeedsAreDecidedRight, NeverMetEndsAtOnce, NobodyStartsBeforeItMay
from tgpu.sim.facts import Watcher
from tgpu.sim.world import World


def everyone(world: World) -> list[Watcher]:
    facts, state = world.facts, world.store.state
    return [
        AcknowledgedIsNeverLost(facts, state),
        OneLiveAttempt(facts, state),
        OnceIsOnce(facts, state),
        OneAttemptAfterReturn(world),
        LostIsReplaced(world),
        NothingBeyondCapacity(world),
        NothingUncommitted(state),
        PictureTellsTheTruth(world),
        NobodyFails(facts),
        DeposedWriteNothing(facts),
        FinalIsFinal(state),
        OnlyLegalMoves(state),
        GangsRunWhole(world),
        NothingPreemptedForNothing(world),
        PreemptedIsNeverLost(world),
        QuotaAddsUp(facts, state),
        QuotaHolds(state),
        HoursAreThere(state),
        SeriesKeepTheirWord(state),
        NobodyStartsBeforeItMay(world),
        NeedsAreDecidedRight(state),
        NeverMetEndsAtOnce(state),
        TrueEndings(facts, state),
    ]
