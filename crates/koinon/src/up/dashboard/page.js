const tone = {
  Reachable: "good", Ready: "good", Joining: "wait", Progressing: "wait", Waiting: "wait",
  Unreachable: "bad", Failed: "bad", Unknown: "wait", Offline: "bad",
};
const cell = (kind, text, name) => {
  const one = document.createElement(kind);
  one.textContent = text ?? "";
  if (name) one.className = name;
  return one;
};
const fill = (id, head, rows) => {
  const table = document.getElementById(id), line = cells => {
    const row = document.createElement("tr");
    row.append(...cells);
    return row;
  };
  const lines = rows.map(cells => line(cells.map(text => cell("td", text, tone[text]))));
  table.replaceChildren(line(head.map(text => cell("th", text))),
    ...(lines.length ? lines : [line([cell("td", "none")])]));
};
const layout = one => Object.entries(one.clusters ?? {})
  .map(([name, at]) => `${name} ${at.ready ?? 0}/${at.desired ?? 0}`).join(", ");
const show = status => {
  fill("members", ["name", "status", "version", "nodes", "why"],
    status.members.map(one => [one.name, one.status, one.version, one.nodes, one.error]));
  fill("workloads", ["namespace", "kind", "name", "ready", "clusters", "waits for"],
    status.workloads.map(one => [one.namespace, one.kind, one.name, `${one.ready}/${one.replicas}`,
      layout(one), (one.waiting ?? []).join("; ")]));
  const away = status.members.filter(one => one.status !== "Reachable").length;
  document.getElementById("sum").textContent =
    `${status.members.length} members` + (away ? `, ${away} away` : "");
};
const look = async () => {
  const said = document.getElementById("said");
  try {
    const answer = await fetch("status.json");
    if (!answer.ok) throw new Error(await answer.text());
    show(await answer.json());
    said.textContent = "";
  } catch (error) {
    said.textContent = `The federation does not answer: ${error.message}`;
  }
  setTimeout(look, 2000);
};
look();
