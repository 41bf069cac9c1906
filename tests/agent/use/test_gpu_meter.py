"""How busy attempts kept their GPUs, by what was seen of the devices now and then."""

from tgpu.agent.use.gpu_meter import GpuMeter


def test_a_device_counts_as_busy_as_it_was_seen_since_it_was_seen_before() -> None:
    meter = GpuMeter()
    meter.launched("1.0.1", (0, 1), 2000, 100.0)
    meter.seen({0: 50, 1: 100}, 105.0)
    meter.seen({0: 0, 1: 20}, 110.0)
    assert meter.ended("1.0.1", 112.0) == 2500 + 5000 + 0 + 1000 + 0 + 400


def test_those_that_share_a_device_share_what_it_did() -> None:
    meter = GpuMeter()
    meter.launched("1.0.1", (3,), 250, 0.0)
    meter.launched("2.0.1", (3,), 750, 0.0)
    meter.seen({3: 80}, 10.0)
    assert meter.ended("1.0.1", 10.0) == 2000
    assert meter.ended("2.0.1", 10.0) == 6000


def test_who_is_alone_on_a_device_did_all_that_it_did() -> None:
    meter = GpuMeter()
    meter.launched("1.0.1", (0,), 250, 0.0)
    meter.seen({0: 100}, 4.0)
    assert meter.ended("1.0.1", 4.0) == 4000


def test_what_nobody_measured_is_not_said_to_be_nothing() -> None:
    meter = GpuMeter()
    meter.launched("1.0.1", (0,), 1000, 0.0)  # over before anybody looked
    assert meter.ended("1.0.1", 3.0) is None
    meter.launched("2.0.1", (0,), 1000, 0.0)  # on a device that does not tell
    meter.seen({0: None}, 5.0)
    assert meter.ended("2.0.1", 6.0) is None
    meter.launched("3.0.1", (), 0, 0.0)  # without any
    assert meter.ended("3.0.1", 6.0) is None
    assert meter.ended("4.0.1", 6.0) is None, "it was here before the agent"
