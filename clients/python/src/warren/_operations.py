OPERATIONS: dict[str, tuple[str, str]] = {}
