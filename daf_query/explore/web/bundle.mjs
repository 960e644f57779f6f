// Bundle the page into the folder that is given: index.html, assets/app.js, assets/app.css, and the libraries' licences.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

const target = path.resolve(process.argv[2]);
const assets = path.join(target, "assets");
const common = { outdir: assets, bundle: true, minify: true, legalComments: "none", logLevel: "warning", metafile: true };

async function licenceOf(folder) {
  const names = await readdir(folder);
  const name = names.find((one) => /^licen[cs]e/i.test(one));
  const described = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
  const text = name ? await readFile(path.join(folder, name), "utf8") : `Licence: ${described.license}`;
  return `${described.name} ${described.version}\n\n${text.trim()}\n`;
}

/** The folders of the packages of which something is in the bundle. */
function packages(metafile) {
  const folders = Object.keys(metafile.inputs).flatMap((input) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []);
  return [...new Set(folders)].sort();
}

await mkdir(assets, { recursive: true });
const { metafile } = await build({ ...common, entryPoints: { app: "src/main.ts" }, format: "esm", target: ["es2022"] });
await build({ ...common, entryPoints: { app: "src/app.css" } });
const licences = await Promise.all(packages(metafile).map(licenceOf));
await writeFile(path.join(assets, "licences.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
await copyFile("src/icon.svg", path.join(assets, "icon.svg"));
await copyFile("src/index.html", path.join(target, "index.html"));
