// The pool itself on the page: quotas, a worker's disk, a sign-in that another one would replace, and requests that fail.
import assert from 'node:assert/strict';
import { accessible } from './scene.mjs';

async function code(scene, role) {
    const made = await fetch(`${scene.home}api/v1/sign-in-codes`, { method: 'POST', headers: { Authorization: `Bearer ${scene.token(role)}` } });
    return (await made.json()).code;
}

async function replacing(scene, done) {
    const page = await scene.signedIn('submit');
    const open = async () => {
        const link = `${scene.home}#/sign-in/${await code(scene, 'admin')}`;
        const tab = await scene.page(page.context(), scene.complaints);
        await tab.goto(link);
        await tab.getByRole('heading', { name: 'Sign in as another user?' }).waitFor();
        assert.equal(new URL(tab.url()).hash, '#/');
        return tab;
    };
    const first = await open();
    await accessible(first, 'the question');
    await first.getByRole('button', { name: 'Stay signed in as submit' }).click();
    await first.getByText('signed in as submit (submit)').waitFor();
    const second = await open();
    await second.getByRole('button', { name: 'Sign in as admin' }).click();
    await second.getByText('signed in as admin (admin)').waitFor();
    await second.getByRole('link', { name: 'Admin' }).waitFor();
    // A link that is opened in a tab that shows the page only changes its address.
    await page.goto(`${scene.home}#/sign-in/${await code(scene, 'submit')}`);
    await page.getByText('signed in as submit (submit)').waitFor();
    assert.equal(await page.getByRole('heading', { name: 'Sign in as another user?' }).count(), 0);
    done('a link asks before it replaces the sign-in of another user');
}

export async function pool(scene, done) {
    await replacing(scene, done);

    const waits = scene.submit('sleep 600', '--label', 'name=w9', '--wait-for-worker', '1h');
    const admin = await scene.signedIn('admin');
    await admin.goto(`${scene.home}#/admin`);
    const row = admin.locator('.quotas tr').filter({ has: admin.getByRole('rowheader', { name: 'submit', exact: true }) });
    await row.waitFor();
    assert.match(await row.innerText(), /1 of no limit\s+0 of no limit\s+0 B of 17 GB/);
    await accessible(admin, 'quotas');
    scene.run(['cancel', waits]);
    await scene.until('the use is counted again', async () => (await row.innerText()).includes('0 of no limit\t0'));
    done('quotas show the limits of each submitter and what it uses now');

    await admin.goto(`${scene.home}#/workers/w1`);
    await admin.locator('.disk').getByText(/ of .* free/).waitFor();
    assert.ok((await admin.locator('.disk progress').getAttribute('max')) > 0);
    done('a worker has its disk');

    // Every view that is refused says so, and asks again.
    const page = await scene.signedIn('submit');
    for (const [address, kind] of [['#/', 'workers'], ['#/jobs', 'jobs'], ['#/workers', 'workers'], ['#/workers/w1', 'workers'], ['#/tests', 'tests'], [`#/jobs/${waits}`, 'jobs/']]) {
        let isBroken = true;
        await page.route(`**/api/v1/${kind}*`, (route) => (isBroken ? route.abort() : route.continue()));
        await page.goto('about:blank');
        await page.goto(`${scene.home}${address}`);
        await page.getByRole('alert').filter({ hasText: "The coordinator can't be reached" }).first().waitFor();
        isBroken = false;
        await page.locator('main').locator('table, dl, .empty, .cells, .figures').first().waitFor();
        await scene.until('the error is gone', async () => (await page.getByRole('alert').count()) === 0);
        await page.unroute(`**/api/v1/${kind}*`);
    }
    done('a view whose request fails says so, and asks again by itself');

    // A change between the first answer of a view and the first event.
    const early = await scene.page(page.context(), scene.complaints);
    let release;
    const held = new Promise((go) => (release = go));
    await early.route('**/api/v1/events', async (route) => {
        await held;
        await route.continue();
    });
    await early.goto(`${scene.home}#/jobs`);
    await early.locator('tbody tr').first().waitFor();
    scene.submit('echo between');
    release();
    await early.getByRole('link', { name: 'echo between' }).waitFor();
    done('a change before the first event is not lost');
}
