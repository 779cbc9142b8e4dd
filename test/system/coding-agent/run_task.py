"""The work: it keeps what must stay secret in /workspace, and says outside how much that was."""
import hashlib
import json
import os

with open("/work/task.json") as f:
    task = json.load(f)
line = "-".join(task["words"]) + "\n"
with open("/workspace/kept.txt", "w") as f:
    f.write(line * task["times"])
    f.flush()
    os.fsync(f.fileno())
with open("/workspace/kept.txt", "rb") as f:
    digest = hashlib.sha256(f.read()).hexdigest()
with open("/work/result.json", "w") as f:
    json.dump({"bytes": os.path.getsize("/workspace/kept.txt"), "sha256": digest}, f)
