from typing import Any
VM = Any; ImageList = Any; SnapshotList = Any; NetworkRequest = Any; CreateVM = dict; Process = Any; RolledBackVM = Any; Preview = Any; FileInfo = Any; FileEvent = Any; PtyOutput = Any
