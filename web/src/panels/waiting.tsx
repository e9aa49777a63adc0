import {cluster} from "../cluster_store";
import type {WaitingJob} from "../cluster_protocol";
import {age, count, dayAndClock, foreign, shellWord} from "../format";
import {Panel} from "../panel";
import * as store from "../store";

function until(job: WaitingJob) {
  if (job.expected_start_ms === null) return <span class="soft">unknown</span>;
  return (
    <>
      about {dayAndClock(job.expected_start_ms)}
      {job.expected_late_ms !== null && (
        <div class="soft">in nine of ten cases before {dayAndClock(job.expected_late_ms)}</div>
      )}
    </>
  );
}

function Row({job}: {job: WaitingJob}) {
  return (
    <tr tabIndex={0} data-job={job.id}>
      <td><bdi>{foreign(job.id)}</bdi></td>
      <td><bdi>{foreign(job.queue) || "cluster"}</bdi></td>
      <td class="number">{count(job.workers)}</td>
      <td class="number">{age((store.serverNow() - job.submitted_at_ms) / 1e3)}</td>
      <td>
        <bdi>{foreign(job.sentence)}</bdi>
        <div><code>$ longhaul status {shellWord(job.id)} --why</code></div>
      </td>
      <td>{until(job)}</td>
    </tr>
  );
}

export function WaitingPanel() {
  const view = cluster.value;
  const jobs = view?.waiting ?? [];
  const empty = view === null || jobs.length > 0 ? null : {reason: "No job waits."};
  return (
    <Panel id="waiting" title="Jobs that wait" wide ready={view !== null} empty={empty}>
      <div class="scroll" tabIndex={0} role="group" aria-label="Jobs that wait, the oldest first">
        <table>
          <thead><tr><th>Job</th><th>Queue</th><th class="number">Workers</th>
            <th class="number">Waits for</th><th>Why</th><th>Until</th></tr></thead>
          <tbody>{jobs.map((job) => <Row key={job.id} job={job} />)}</tbody>
        </table>
      </div>
      {view !== null && view.waiting_total > jobs.length && (
        <p class="soft">The oldest {jobs.length} of {count(view.waiting_total)} jobs that wait.</p>
      )}
    </Panel>
  );
}
