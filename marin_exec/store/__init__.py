"""The store: leases, records, pieces and manifests under one prefix. See docs/concepts.md for the layout."""

from marin_exec.store.attempt_log import AttemptLog, utc_now
from marin_exec.store.conditional import AlreadyExists, Conflict, Versioned
from marin_exec.store.hold import LEASE_HEARTBEATS, LeaseLost, StalenessWatch
from marin_exec.store.layout import Location
from marin_exec.store.lease import Lease, claim
from marin_exec.store.limits import Slot, release_slots, take_slots
from marin_exec.store.pieces import Piece, commit_piece, pieces
from marin_exec.store.results import plain_result, split_result
from marin_exec.store.roots import Root, drop_root, read_root, register_root, root_ids, roots
from marin_exec.store.store import Store
from marin_exec.store.writable import check_writable

__all__ = [
    "LEASE_HEARTBEATS",
    "AlreadyExists",
    "AttemptLog",
    "Conflict",
    "Lease",
    "LeaseLost",
    "Location",
    "Piece",
    "Root",
    "Slot",
    "StalenessWatch",
    "Store",
    "Versioned",
    "check_writable",
    "claim",
    "commit_piece",
    "drop_root",
    "pieces",
    "plain_result",
    "read_root",
    "register_root",
    "release_slots",
    "root_ids",
    "roots",
    "split_result",
    "take_slots",
    "utc_now",
]
