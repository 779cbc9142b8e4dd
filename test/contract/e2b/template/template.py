# Copyright 2026 The Warren Authors
# SPDX-License-Identifier: Apache-2.0

"""A template that the SDK for Python builds, and one that it cannot build."""
from e2b import Sandbox, Template, wait_for_file


def build():
    template = (
        Template()
        .from_template("base")
        .copy("hello.txt", "/srv/hello.txt", user="root", mode=0o600)
        .set_envs({"GREETING": "hi"})
        .set_user("root")
        .set_start_cmd("touch /tmp/started; sleep 1000", wait_for_file("/tmp/started"))
    )
    info = Template.build(template, "sdk-py")
    assert info.tags == ["default"], info
    with Sandbox.create("sdk-py") as s:
        out = s.commands.run("cat /srv/hello.txt; echo $GREETING; id -un; pgrep -c sleep").stdout
        assert out == "hello from the context\nhi\nroot\n1\n", out
    tags = Template.get_tags("sdk-py")
    assert [t.tag for t in tags] == ["default"] and tags[0].build_id == info.build_id, tags
    print("a template is built and used: true", flush=True)


def fail():
    try:
        Template.build(Template().from_template("base").run_cmd("exit 3"), "sdk-py-broken")
    except Exception as e:  # noqa: BLE001
        assert type(e).__name__ == "BuildException" and "exit status 3" in str(e), f"{type(e).__name__}: {e}"
        print("a failed step is a build exception: true", flush=True)


build()
fail()
