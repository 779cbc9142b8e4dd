# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0
"""Harbor's evaluations in machines of Warren: `harbor run --env warren_harbor:WarrenEnvironment`."""

from .environment import WarrenEnvironment, WarrenOptions

__all__ = ["WarrenEnvironment", "WarrenOptions"]
