from tests.store.store_story import ROOT
from tgpu.store.access_port import AuditFilter
from tgpu.store.port import Store


async def test_a_secret_is_its_user_s_and_the_last_one_counts(store: Store) -> None:
    await store.set_secret("ann", "hf-token", b"first\x00\xff", ROOT, 5)
    await store.set_secret("ann", "hf-token", b"\x00second", ROOT, 6)
    await store.set_secret("ann", "Key", b"", ROOT, 7)
    await store.set_secret("bob", "hf-token", b"his", ROOT, 8)
    assert await store.secret_names("ann") == [("Key", 7), ("hf-token", 6)]
    assert await store.secret_names("eve") == []
    assert await store.secret_bodies("ann", ["hf-token", "other", "Key", "Key"]) == {
        "hf-token": b"\x00second",
        "Key": b"",
    }
    assert await store.secret_bodies("bob", ["hf-token", "Key"]) == {"hf-token": b"his"}


async def test_a_secret_is_forgotten_once(store: Store) -> None:
    await store.set_secret("ann", "a", b"x", ROOT, 5)
    assert not await store.remove_secret("bob", "a", ROOT, 6)
    assert await store.remove_secret("ann", "a", ROOT, 6)
    assert not await store.remove_secret("ann", "a", ROOT, 7)
    assert await store.secret_bodies("ann", ["a"]) == {}


async def test_the_audit_log_has_the_names_of_secrets_and_nothing_of_what_they_say(store: Store) -> None:
    await store.set_secret("ann", "a", b"planted", ROOT, 5)
    await store.set_secret("ann", "a", b"planted too", ROOT, 6)
    await store.remove_secret("ann", "a", ROOT, 7)
    await store.remove_secret("ann", "a", ROOT, 8)
    entries = await store.audit_entries(AuditFilter())
    assert [(entry.action, entry.target, entry.at_ms) for entry in entries] == [
        ("secret.remove", "secret/ann/a", 7),
        ("secret.set", "secret/ann/a", 6),
        ("secret.set", "secret/ann/a", 5),
    ]
    assert "planted" not in repr(entries)
