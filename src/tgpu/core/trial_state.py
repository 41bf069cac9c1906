"""Trial copy of the cluster state: hypothetical tasks are added to it, and the real state stays as it is."""

from tgpu.core.columns.own_copy import own_copy
from tgpu.core.picture import Picture


def trial_copy(picture: Picture) -> Picture:
    """A state to which waiting tasks can be added, and on which plans can be made.

    It shares what neither of these changes: nodes, attempts, and what attempts hold. Arrays and indexes of
    pending tasks are copied as blocks, which takes milliseconds with 100,000 of them.
    """
    trial = own_copy(picture)
    trial.parked, trial.moments = own_copy(picture.parked), own_copy(picture.moments)
    trial.gangs, trial.hours = picture.gangs.trial_copy(), own_copy(picture.hours)
    trial.table = picture.table.trial_copy(trial.hours)
    return trial
