// A pool of 200 workers and 10,000 finished jobs: what shows first, on a desktop and a phone; and a connection that breaks.
import assert from 'node:assert/strict';
import { accessible, fits } from './scene.mjs';

const WORKERS = 200;
const JOBS = 10_000;

export async function crowd(scene, done) {
    for (const role of ['admin', 'worker', 'submit']) scene.token(role);
    scene.crowd('seed', scene.data, String(JOBS));
    let coordinator = await scene.coordinator();
    const connect = () => scene.crowd('workers', scene.address, scene.token('worker'), String(WORKERS));
    connect();
    const connected = () => JSON.parse(scene.run(['workers', '--json'])).filter((worker) => worker.connected).length;
    await scene.until('all workers are connected', () => connected() === WORKERS);
    const page = await scene.signedIn('submit', { viewport: { width: 1440, height: 900 } });
    await page.locator('.figure').filter({ hasText: 'Slots in use' }).filter({ hasText: 'of 400' }).waitFor();
    await page.locator('.figure').filter({ hasText: 'Workers in trouble' }).filter({ hasText: 'mini-old' }).waitFor();
    const top = async (locator) => (await locator.boundingBox()).y;
    assert.ok((await top(page.getByRole('heading', { name: 'Recent jobs' }))) < 900, 'the jobs are in the first screen');
    assert.ok((await top(page.locator('.tile.away').first())) < 900, 'the worker in trouble is in the first screen');
    assert.equal(await page.locator('.cells .cell').count(), WORKERS + 1);
    await accessible(page, 'overview');
    await fits(page, 'overview');
    await page.getByLabel('Filter workers').fill('quarantined');
    await page.locator('.tile').getByText('the disk is full').waitFor();
    done('the overview shows load, jobs and the workers in trouble in the first screen');

    const narrow = await scene.signedIn('submit', { viewport: { width: 390, height: 844 } });
    await narrow.locator('.figure').first().waitFor();
    await fits(narrow, 'overview on a phone');
    await narrow.goto(`${scene.home}#/workers`);
    await narrow.getByRole('link', { name: 'mini-200' }).waitFor();
    const names = await narrow.locator('[data-row]').allInnerTexts();
    assert.ok(names.indexOf('mini-2') < names.indexOf('mini-11'), 'natural order');
    await fits(narrow, 'workers on a phone');
    done('200 workers fit a phone, in natural order');

    await page.goto(`${scene.home}#/jobs?verdict=failed`);
    await page.locator('tbody tr').nth(49).waitFor();
    await page.getByRole('button', { name: 'Show older jobs' }).click();
    await page.locator('tbody tr').nth(99).waitFor();
    await page.goto(`${scene.home}#/workers/mini-2`);
    await page.getByRole('heading', { name: 'Last 24 hours' }).waitFor();
    assert.ok((await page.locator('.timeline rect').count()) > 10);
    done('failed jobs come in pages, and a worker has its day');

    await page.goto(scene.home);
    coordinator.kill('SIGKILL');
    await page.getByText('Connection lost; trying again').waitFor();
    const [, port] = scene.address.split(':');
    coordinator = await scene.coordinator(`127.0.0.1:${port}`);
    await page.getByText('Live', { exact: true }).waitFor();
    connect();
    await page.locator('.figure').filter({ hasText: 'Slots in use' }).filter({ hasText: 'of 400' }).waitFor();
    const job = scene.submit('true', '--label', 'os=macos');
    await page.locator('.figure').filter({ hasText: 'Slots in use' }).filter({ hasText: /Slots in use1/ }).waitFor();
    assert.ok(job);
    done('a broken connection shows, heals, and misses nothing');
}
