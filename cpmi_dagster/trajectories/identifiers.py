"""Shards, the unit of partition: `000`, `001`, …; all trajectories of a question are in one."""

GIVEN = "given"
"""How gold answers are found that come with the trajectories, and the source that they are filed under."""


def shard_name(number: int) -> str:
    """Partition key of a shard: 3 is `003`."""
    return f"{number:03d}"


def shard_key(question_id: str, shards: int) -> str:
    """Partition key of the shard a question belongs to, by its hash in hexadecimal."""
    return shard_name(int(question_id, 16) % shards)


TRAJECTORY_ID = r"^t[0-9]{9,18}$"
"""What `name_trajectory` gives."""


def name_trajectory(row_number: int) -> str:
    """`t000000042` for row 42 of the source."""
    return f"t{row_number:09d}"
