#!/usr/bin/env python3
"""Records what a real kube-apiserver decides, as rbac.json next to this file.

Usage: KUBECONFIG=... record.py    (an admin's kubeconfig; kubectl on the PATH; no controllers running)
Makes a namespace and a few roles, asks, and removes them again.
"""
import http.client, itertools, json, os, ssl, subprocess, urllib.parse

NS, OTHER = "auth-record", "auth-other"
RBAC = "rbac.authorization.k8s.io/v1"


def kubectl(*args, body=None, check=True):
    done = subprocess.run(["kubectl", *args], input=body and json.dumps(body), capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"kubectl {' '.join(args)}: {done.stderr}")
    return done


def post(path, body, *args):
    """The answer as JSON: the object, or the Status of a refusal."""
    done = kubectl("create", "--raw", path, "-f", "-", "-v=10", *args, body=body, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)
    start = done.stderr.find('{"kind":"Status"')
    return json.JSONDecoder().raw_decode(done.stderr[start:])[0] if start >= 0 else {"error": done.stderr}


def rule(verbs, groups=None, resources=None, names=None, urls=None):
    pairs = {"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names, "nonResourceURLs": urls}
    return {key: value for key, value in pairs.items() if value is not None}


def role(name, *rules, namespace=None, **more):
    kind = "Role" if namespace else "ClusterRole"
    meta = {"name": name, **({"namespace": namespace} if namespace else {}), **more}
    return {"apiVersion": RBAC, "kind": kind, "metadata": meta, "rules": list(rules)}


def binding(name, ref, *subjects, namespace=None):
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    ref_kind, ref_name = ref
    return {"apiVersion": RBAC, "kind": kind, "metadata": meta,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": ref_kind, "name": ref_name},
            "subjects": list(subjects)}


def subject(kind, name, namespace=None):
    group = {} if kind == "ServiceAccount" else {"apiGroup": "rbac.authorization.k8s.io"}
    return {"kind": kind, "name": name, **group, **({"namespace": namespace} if namespace else {})}


OBJECTS = [
    role("rec-pods", rule(["get", "list"], [""], ["pods"]), rule(["get"], [""], ["pods/log"]), namespace=NS),
    role("rec-named", rule(["get", "update"], [""], ["configmaps"], ["one", "two"]), namespace=NS),
    role("rec-any-status", rule(["*"], ["*"], ["*/status"])),
    role("rec-apps", rule(["*"], ["apps"], ["*"])),
    role("rec-urls", rule(["get"], urls=["/metrics", "/logs/*"]), rule(["post"], urls=["*"])),
    role("rec-exact-star", rule(["get"], [""], ["pods/*"])),
    binding("rec-pods", ("Role", "rec-pods"), subject("User", "alice"), subject("Group", "devs"),
            subject("ServiceAccount", "robot", NS), namespace=NS),
    binding("rec-named", ("Role", "rec-named"), subject("User", "bob"), namespace=NS),
    binding("rec-apps", ("ClusterRole", "rec-apps"), subject("User", "bob"), namespace=NS),
    binding("rec-view", ("ClusterRole", "system:aggregate-to-view"), subject("Group", "viewers"), namespace=NS),
    binding("rec-gone", ("ClusterRole", "rec-not-there"), subject("User", "carol"), namespace=NS),
    binding("rec-gone-role", ("Role", "rec-not-there"), subject("User", "carol"), namespace=NS),
    binding("rec-any-status", ("ClusterRole", "rec-any-status"), subject("User", "dora")),
    binding("rec-urls", ("ClusterRole", "rec-urls"), subject("User", "erin")),
    binding("rec-exact-star", ("ClusterRole", "rec-exact-star"), subject("User", "frank")),
    binding("rec-rbac-admin", ("ClusterRole", "admin-of-roles"), subject("User", "grace")),
    role("admin-of-roles", rule(["create", "get", "update"], ["rbac.authorization.k8s.io"], ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]),
         rule(["get", "list"], [""], ["pods"])),
    role("rec-escalator", rule(["escalate"], ["rbac.authorization.k8s.io"], ["roles"]),
         rule(["bind"], ["rbac.authorization.k8s.io"], ["clusterroles"], ["rec-apps"]),
         rule(["create", "update", "get", "patch"], ["rbac.authorization.k8s.io"], ["roles", "rolebindings"])),
    binding("rec-escalator", ("ClusterRole", "rec-escalator"), subject("User", "heidi"), namespace=NS),
    role("rec-legacy", rule(["impersonate"], [""], ["users", "groups"], ["alice", "devs", "system:anonymous", "system:unauthenticated"]),
         rule(["impersonate"], ["authentication.k8s.io"], ["userextras/scopes"], ["dev"]),
         rule(["impersonate"], [""], ["serviceaccounts"], ["robot"]),
         rule(["impersonate"], ["authentication.k8s.io"], ["uids"], ["u-1"])),
    binding("rec-legacy", ("ClusterRole", "rec-legacy"), subject("ServiceAccount", "legacy", NS)),
    role("rec-constrained", rule(["impersonate:user-info"], ["authentication.k8s.io"], ["users", "groups"], ["alice", "devs", "system:masters"]),
         rule(["impersonate:user-info"], ["authentication.k8s.io"], ["userextras/*", "userextras/example.com/a"]),
         rule(["impersonate:serviceaccount"], ["authentication.k8s.io"], ["serviceaccounts"]),
         rule(["impersonate:arbitrary-node"], ["authentication.k8s.io"], ["nodes"], ["n1"]),
         rule([f"impersonate-on:{mode}:create" for mode in ("user-info", "serviceaccount", "arbitrary-node")],
              ["authentication.k8s.io"], ["selfsubjectreviews"])),
    binding("rec-constrained", ("ClusterRole", "rec-constrained"), subject("ServiceAccount", "constrained", NS)),
]
STOCK = ["system:discovery", "system:basic-user", "system:public-info-viewer"]
STOCK_ROLES = STOCK + ["system:aggregate-to-view"]

AUTH = "system:authenticated"
USERS = [
    {"user": "alice", "groups": [AUTH]}, {"user": "bob", "groups": [AUTH]}, {"user": "carol", "groups": [AUTH]},
    {"user": "dora", "groups": [AUTH]}, {"user": "erin", "groups": [AUTH]}, {"user": "frank", "groups": [AUTH]},
    {"user": "grace", "groups": [AUTH]}, {"user": "x", "groups": ["devs"]}, {"user": "v", "groups": ["viewers", AUTH]},
    {"user": f"system:serviceaccount:{NS}:robot", "groups": []},
    {"user": f"system:serviceaccount:{OTHER}:robot", "groups": []},
    {"user": "system:anonymous", "groups": ["system:unauthenticated"]},
    {"user": "root", "groups": ["system:masters"]},
]


def resource(verb, resource, group="", sub="", name="", namespace=NS):
    pairs = {"verb": verb, "group": group, "resource": resource, "subresource": sub, "name": name, "namespace": namespace}
    return {"resourceAttributes": {key: value for key, value in pairs.items() if value}}


def url(verb, path):
    return {"nonResourceAttributes": {"verb": verb, "path": path}}


REQUESTS = [
    resource("get", "pods", name="a"), resource("list", "pods"), resource("list", "pods", namespace=OTHER),
    resource("list", "pods", namespace=""), resource("watch", "pods"), resource("get", "pods", sub="log", name="a"),
    resource("get", "pods", sub="status", name="a"), resource("update", "pods", sub="status", name="a", namespace=OTHER),
    resource("patch", "deployments", "apps", sub="status", name="d", namespace=""),
    resource("delete", "deployments", "apps", name="d"), resource("delete", "deployments", "extensions", name="d"),
    resource("update", "deployments", "apps", sub="scale", name="d"),
    resource("get", "configmaps", name="one"), resource("get", "configmaps", name="three"), resource("get", "configmaps"),
    resource("list", "configmaps", name="one"), resource("create", "selfsubjectaccessreviews", "authorization.k8s.io", namespace=""),
    resource("create", "roles", "rbac.authorization.k8s.io", namespace=OTHER), resource("get", "secrets", name="s"),
    resource("*", "pods"), resource("get", "*"),
    url("get", "/metrics"), url("get", "/metrics/x"), url("get", "/logs/"), url("get", "/logs/a/b"), url("get", "/logs"),
    url("post", "/any/thing"), url("get", "/healthz"), url("get", "/api"), url("get", "/apis/apps"), url("get", "/version/"),
]

ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def decisions():
    for user, request in itertools.product(USERS, REQUESTS):
        answer = post(ACCESS, {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {**user, **request}})
        yield {"spec": answer["spec"], "status": answer["status"]}


def as_args(user):
    return ["--as", user["user"], *[f"--as-group={group}" for group in user["groups"]]]


def refusals():
    """Requests that are refused, and the Status that says so."""
    for who, path in itertools.product(USERS[:3] + [USERS[11]], [
        f"/api/v1/namespaces/{NS}/secrets", f"/api/v1/namespaces/{NS}/secrets/s", "/api/v1/nodes", "/api/v1/nodes/n",
        f"/api/v1/namespaces/{NS}/pods/p/status", f"/apis/apps/v1/namespaces/{NS}/deployments/d/scale",
        "/foo/<b>&", "/metrics", f"/api/v1/namespaces/{NS}", "/api/v1/namespaces",
    ]):
        done = kubectl("get", "--raw", path, "-v=10", *as_args(who), check=False)
        start = done.stderr.find('{"kind":"Status"')
        if start >= 0:
            status = json.JSONDecoder().raw_decode(done.stderr[start:])[0]
            if status["code"] == 403:
                yield {"user": who, "path": path, "status": status}


def rules():
    for user in [USERS[0], USERS[2], USERS[4], USERS[8], USERS[11]]:
        answer = post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                      {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": NS}}, *as_args(user))
        yield {"user": user, "answer": answer}


def escalations():
    plenty = rule(["get", "delete"], ["", "apps"], ["pods", "secrets"])
    tries = [
        ("grace", role("rec-try", rule(["get"], [""], ["pods"]), namespace=NS)),
        ("grace", role("rec-try", plenty, namespace=NS)),
        ("grace", role("rec-try", rule(["get"], [""], ["secrets"], ["a", "b"]), rule(["get"], urls=["/x", "/y"]))),
        ("grace", {**role("rec-try"), "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
        ("grace", binding("rec-try", ("Role", "rec-pods"), subject("User", "z"), namespace=NS)),
        ("grace", binding("rec-try", ("ClusterRole", "rec-apps"), subject("User", "z"), namespace=NS)),
        ("grace", binding("rec-try", ("ClusterRole", "rec-not-there"), subject("User", "z"), namespace=NS)),
        ("grace", binding("rec-try", ("Role", "rec-not-there"), subject("User", "z"), namespace=NS)),
        ("grace", binding("rec-try", ("ClusterRole", "rec-apps"), subject("User", "z"))),
        ("grace", binding("rec-try", ("ClusterRole", "admin-of-roles"), subject("User", "z"))),
        ("heidi", role("rec-try", plenty, namespace=NS)),
        ("heidi", binding("rec-try", ("ClusterRole", "rec-apps"), subject("User", "z"), namespace=NS)),
        ("heidi", binding("rec-try", ("ClusterRole", "rec-any-status"), subject("User", "z"), namespace=NS)),
    ]
    for who, body in tries:
        plural = body["kind"].lower() + "s"
        scope = f"/namespaces/{NS}" if "namespace" in body["metadata"] else ""
        answer = post(f"/apis/{RBAC}{scope}/{plural}?dryRun=All", body, "--as", who)
        yield {"user": {"user": who, "groups": [AUTH]}, "object": body, "refusal": answer if answer.get("kind") == "Status" else None}


def impersonations():
    """What ServiceAccounts get when they ask who they are while being somebody else."""
    robot = f"system:serviceaccount:{NS}:robot"
    user, group, extra, uid = "Impersonate-User", "Impersonate-Group", "Impersonate-Extra-", "Impersonate-Uid"
    wishes = [
        [(user, "alice")], [(user, "bob")], [(user, "alice"), (group, "devs")], [(user, "alice"), (group, "ops")],
        [(user, "alice"), (group, "devs"), (group, "system:authenticated")],
        [(user, "alice"), (extra + "Scopes", "dev")], [(user, "alice"), (extra + "Scopes", "prod")],
        [(user, "alice"), (extra + "Example.com%2fa", "b")], [(user, "alice"), (uid, "u-1")], [(user, "alice"), (uid, "u-2")],
        [(user, robot)], [(user, robot), (group, "devs")], [(user, robot + "x")], [(user, "system:node:n1")],
        [(user, "system:node:n2")], [(user, "system:anonymous")], [(user, "alice"), (group, "system:unauthenticated")],
        [(user, "alice"), (group, "system:masters")], [(user, "alice"), (extra + "Bad%20key", "x")],
        [(user, "alice"), *[(group, name) for name in "abcd"]], [(group, "g")], [(uid, "u")], [(extra + "A%2fb", "c")],
    ]
    server = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}").stdout
    host = urllib.parse.urlparse(server)
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    for who in ("legacy", "constrained", "robot"):
        token = kubectl("create", "token", "-n", NS, who).stdout.strip()
        for wish in wishes:
            # urllib would fold headers of one name into one.
            line = http.client.HTTPSConnection(host.hostname, host.port, context=ssl._create_unverified_context())
            line.putrequest("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
            for name, value in [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json"),
                                ("Content-Length", str(len(body))), *wish]:
                line.putheader(name, value)
            line.endheaders(body.encode())
            answer = json.load(line.getresponse())
            result = {"refusal": answer} if answer.get("kind") == "Status" else {"user": answer["status"]["userInfo"]}
            yield {"requestor": f"system:serviceaccount:{NS}:{who}", "wish": wish, **result}


def ready():
    made = [*OBJECTS]
    for name in (NS, OTHER):
        kubectl("create", "namespace", name)
    for name in ("legacy", "constrained", "robot"):
        kubectl("create", "serviceaccount", "-n", NS, name)
    kubectl("create", "-f", "-", body={"apiVersion": "v1", "kind": "List", "items": made})
    # The authorizer reads its caches, which a write reaches a moment later.
    for _ in range(200):
        answer = post(ACCESS, {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                               "spec": {"user": f"system:serviceaccount:{NS}:constrained",
                                        **resource("impersonate:serviceaccount", "serviceaccounts", "authentication.k8s.io")}})
        if answer["status"]["allowed"]:
            return
    raise SystemExit("the last binding was never seen")


def clean():
    for name in ("legacy", "constrained", "robot"):
        kubectl("delete", "--ignore-not-found", "serviceaccount", "-n", NS, name, check=False)
    for one in OBJECTS:
        scope = ["-n", one["metadata"]["namespace"]] if "namespace" in one["metadata"] else []
        kubectl("delete", "--ignore-not-found", one["kind"], one["metadata"]["name"], *scope, check=False)
    # Without a namespace controller nobody else empties the finalizers.
    for name in (NS, OTHER):
        kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found", check=False)
        kubectl("replace", "--raw", f"/api/v1/namespaces/{name}/finalize", "-f", "-", check=False,
                body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": []}})


def stock(kind, names):
    for name in names:
        one = json.loads(kubectl("get", kind, name, "-o", "json").stdout)
        one["metadata"] = {"name": name, "labels": one["metadata"].get("labels", {})}
        yield one


def main():
    clean()
    try:
        ready()
        recorded = {
            "objects": OBJECTS + list(stock("clusterrole", STOCK_ROLES)) + list(stock("clusterrolebinding", STOCK)),
            "decisions": list(decisions()), "refusals": list(refusals()), "rules": list(rules()),
            "escalations": list(escalations()), "impersonations": list(impersonations()),
        }
    finally:
        clean()
    with open(os.path.join(os.path.dirname(__file__), "rbac.json"), "w") as file:
        parts = []
        for key, values in recorded.items():
            lines = ",\n".join(json.dumps(value, sort_keys=True) for value in values)
            parts.append(f'"{key}": [\n{lines}\n]')
        file.write("{\n" + ",\n".join(parts) + "\n}\n")


main()
