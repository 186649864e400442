// The artifacts of a job: images and text are shown, the others are downloaded.
import { send } from "./api.js";
import { Action, Failure, save } from "./components.js";
import { bytes, visible } from "./format.js";
import { html, useEffect, useState } from "./vendor/htm-preact.js";

const IMAGE = /\.(png|jpe?g|gif|webp)$/i;
const TEXT = /\.(txt|log|json|xml|ya?ml|toml|md|csv|html?|swift|rs|diff|patch)$/i;
const SHOWN_BYTES_MAX = 5_000_000;
const TEXT_BYTES_MAX = 200_000;

function Artifact({ job, artifact }) {
  const [shown, setShown] = useState(null);
  const path = `jobs/${job}/artifacts/${artifact.path.split("/").map(encodeURIComponent).join("/")}`;
  const fetched = async (limit) => (await send("GET", path, { accept: "*/*", headers: limit ? { Range: `bytes=0-${limit - 1}` } : {} })).blob();
  const isImage = IMAGE.test(artifact.path) && artifact.bytes <= SHOWN_BYTES_MAX;
  useEffect(() => {
    if (!isImage) return undefined;
    let address;
    fetched().then((blob) => setShown({ image: (address = URL.createObjectURL(new Blob([blob], { type: `image/${artifact.path.split(".").pop().toLowerCase().replace("jpg", "jpeg")}` }))) }), () => {});
    return () => address && URL.revokeObjectURL(address);
  }, [artifact.blake3]);
  const download = async () => save(await fetched(), artifact.path.split("/").pop());
  const show = async () => setShown({ text: await (await fetched(TEXT_BYTES_MAX)).text() });
  return html`<li>
    <span class="command">${artifact.path}</span> <span class="quiet">${bytes(artifact.bytes)}</span>
    ${TEXT.test(artifact.path) && !shown && html`<${Action} label="Show" run=${show} />`}
    <${Action} label="Download" run=${download} />
    ${shown?.error && html`<${Failure} error=${shown.error} />`}
    ${shown?.image && html`<img src=${shown.image} alt=${`Artifact ${artifact.path}`} />`}
    ${shown?.text !== undefined && html`<pre tabindex="0" role="region" aria-label=${artifact.path}>${visible(shown.text)}</pre>${artifact.bytes > TEXT_BYTES_MAX && html`<p class="quiet">The first ${bytes(TEXT_BYTES_MAX)}</p>`}`}
  </li>`;
}

export function Artifacts({ result }) {
  if (!result.artifacts?.length) return null;
  return html`<section aria-labelledby="artifacts-title">
    <h2 id="artifacts-title">Artifacts</h2>
    <ul class="artifacts">${result.artifacts.map((artifact) => html`<${Artifact} key=${artifact.path} job=${result.job_id} artifact=${artifact} />`)}</ul>
  </section>`;
}
