"""GPUs of a model that a tenant limits are given only by name: who is told to name it."""

from dataclasses import replace

from tests.core.core_story import asks, device, gang, node, picture_of, task
from tests.core.explain_story import why
from tgpu.core.explain import never_fits
from tgpu.core.picture import Picture
from tgpu.domain.job import Request
from tgpu.domain.quota import Limits
from tgpu.domain.tenant import Tenant


def kept_off(most: int, request: Request) -> Picture:
    """On n1 there are two A100, on n2 a T4 that is taken."""
    nodes = [node("n1", gpus=2), node("n2", gpus=[device(0, "Tesla T4")])]
    asking = task(1, replace(request, gpu_types_barred=("a100",)), tenant_id="lab/vision")
    picture = picture_of(nodes, [asking], [(task(9, asks(1)), "n2", (0,))])
    picture.set_tenant(Tenant("lab", limits=Limits(named=(("gpu:a100", most),))))
    return picture


def test_nobody_is_told_to_name_a_model_of_which_its_quota_admits_too_few() -> None:
    reasons = why(kept_off(0, asks(1)), 1).reasons
    assert reasons[1].text == "tenant lab may have 0 a100 GPUs, and it needs 1"
    assert why(kept_off(1000, asks(1)), 1).reasons[1].text.endswith("with --gpu-type a100 to use them")
    assert why(kept_off(1000, asks(2)), 1).summary == (
        "can never run here: it asks for 2 GPUs, the largest node has 1 beside a100 GPUs, of which its "
        "tenant may not have so many"
    )
    assert why(kept_off(2000, asks(2)), 1).summary.endswith("ask for them with --gpu-type a100")
    picture = kept_off(1000, asks(2))
    for asked in (
        asks(2, gpu_types_barred=("a100",)),
        asks(2, gpu_memory_mib=1024, gpu_types_barred=("a100",)),
    ):
        assert "--gpu-type" not in str(never_fits(asked, picture))


def test_at_submission_a_tenant_is_told_to_name_only_what_its_quota_could_admit() -> None:
    asked = asks(2, gpu_types_barred=("a100",))

    def told(most: int, *, gpus: int | None = None, tasks: int = 1) -> bool:
        picture = kept_off(0, asked)
        picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=gpus, named=(("gpu:a100", most),))))
        picture.set_tenant(Tenant("org", limits=Limits(named=(("gpu:a100", 8000),))))
        return "--gpu-type a100" in str(never_fits(asked, picture, "lab/vision", tasks))

    assert (told(2000), told(1000)) == (True, False), "however many others may have"
    assert (told(4000, tasks=2), told(4000, tasks=3)) == (True, False), "all of a gang"
    assert (told(2000, gpus=2000), told(2000, gpus=1000)) == (True, False), "of whatever model"


def test_who_names_a_type_is_told_of_no_other() -> None:
    picture = kept_off(2000, asks(1, gpu_type="t4"))
    assert [each.code for each in why(picture, 1).reasons] == ["gpus"]
    assert never_fits(asks(2, gpu_type="t4", gpu_types_barred=("a100",)), picture) == (
        "it asks for 2 GPUs of type t4, the largest node has 1"
    )


def test_a_gang_is_told_to_name_a_model_only_if_its_quota_admits_enough_for_all_of_it() -> None:
    pair = gang(1, [asks(1, gpu_types_barred=("a100",))] * 2, tenant_id="lab")
    nodes = [node("n1", gpus=2), node("n2", gpus=[device(0, "Tesla T4"), device(1, "Tesla T4")])]
    picture = picture_of(nodes, pair, [(task(9, asks(2)), "n2", (0, 1))])
    picture.set_tenant(Tenant("lab", limits=Limits(named=(("gpu:a100", 1000),))))
    texts = [each.text for each in why(picture, 1).reasons]
    assert "tenant lab may have 1 a100 GPU, and it needs 2" in texts
