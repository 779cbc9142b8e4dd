import pytest

from app import add, database, notes


@pytest.fixture
def db(tmp_path):
    return database(tmp_path / "notes.db")


def test_notes_are_kept_in_order(db):
    add(db, "milk")
    add(db, "bread")
    assert [n["text"] for n in notes(db)] == ["milk", "bread"]


def test_an_empty_note_is_refused(db):
    with pytest.raises(ValueError):
        add(db, " ")
    assert notes(db) == []
