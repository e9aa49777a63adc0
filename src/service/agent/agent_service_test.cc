// A real agent with real processes, before a scripted controller.
#include "service/agent/agent_service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "checkpoint/arena.h"
#include "checkpoint/directory.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/memory/shared_memory.h"
#include "io/net/socket.h"
#include "io/process/process.h"
#include "service/agent/agent_service_fixture.h"

namespace longhaul::service {
namespace {

using std::chrono::seconds;

TEST_F(AgentServiceTest, JoinsWithItsFactsAndItsHeartBeats) {
  Join();
  EXPECT_EQ(controller_.hello().node(), "node-1");
  const proto::AgentJoined joined = First(&proto::Event::has_agent_joined).agent_joined();
  EXPECT_EQ(joined.slots(), 2u);
  EXPECT_EQ(joined.address(), "127.0.0.1");
  EXPECT_GT(joined.memory_bytes(), 0u);
  EXPECT_TRUE(Await([this] { return controller_.heartbeats() >= 2; }));
}

TEST_F(AgentServiceTest, SendsItsHeartBeatsAtThePeriodThatTheControllerChanges) {
  Join();
  controller_.SetHeartbeatPeriod(1'000'000);
  // At the period of 250 ms there would be 80 within the time of Await.
  EXPECT_TRUE(Await([this] { return controller_.heartbeats() >= 100; }));
}

// Neither of the two sends heartbeats, so that the agent leaves each of them after a while and
// tries the other one.
TEST_F(AgentServiceTest, LeavesASilentControllerAndFollowsNoLowerTerm) {
  ScriptedController newer;
  controller_.SetTerm(1);
  newer.SetTerm(2);
  newer.Refuse(true);
  options_.controller = controller_.address() + "," + newer.address();
  Join();
  newer.Refuse(false);
  ASSERT_TRUE(Await([&] { return newer.streams() >= 2; }));
  const int offered = controller_.streams(), heartbeats = controller_.heartbeats();
  ASSERT_TRUE(Await([&] { return newer.streams() >= 4; }));
  EXPECT_GT(controller_.streams(), offered) << "the old one was not tried";
  EXPECT_EQ(controller_.heartbeats(), heartbeats) << "the old one was followed";
  EXPECT_EQ(ReadAll(options_.state_directory + "/controller-term"), "2\n");
}

TEST_F(AgentServiceTest, RunsWorkersAndTellsHowTheyEnded) {
  Join();
  controller_.Give(Shell(1, "echo \"rank $RANK of $WORLD_SIZE\"; echo oh no >&2; exit 3", 2));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
  EXPECT_EQ(Count(&proto::Event::has_worker_exited), 2);
  const proto::WorkerExited exited = First(&proto::Event::has_worker_exited).worker_exited();
  EXPECT_EQ(exited.exit_code(), 3);
  EXPECT_FALSE(exited.asked());
  EXPECT_NE(exited.message().find("oh no"), std::string::npos) << exited.message();
  EXPECT_EQ(ReadAll(LogOf(1, 1)), "rank 1 of 2\noh no\n");
}

TEST_F(AgentServiceTest, SaysThatAProgramDoesNotExist) {
  Join();
  controller_.Give(Start(1, {"/no/such/program"}));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_failed_to_start) == 1; }));
  const auto failed = First(&proto::Event::has_workers_failed_to_start).workers_failed_to_start();
  EXPECT_TRUE(failed.permanent());
  EXPECT_NE(failed.reason().find("/no/such/program"), std::string::npos) << failed.reason();
}

TEST_F(AgentServiceTest, ANewAttemptStartsAfterTheOldOneIsGone) {
  Join();
  const pid_t old_pid = StartWaiting(1);
  const pid_t new_pid = StartWaiting(2);
  EXPECT_FALSE(IsAlive(old_pid));
  EXPECT_TRUE(IsAlive(new_pid));
  const proto::WorkerExited exited = First(&proto::Event::has_worker_exited).worker_exited();
  EXPECT_EQ(exited.signal(), SIGKILL);
  EXPECT_TRUE(exited.asked());
}

TEST_F(AgentServiceTest, TellsAKilledWorkerAtOnce) {
  Join();
  const pid_t pid = StartWaiting(1);
  const Instant killed = io::Now();
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_worker_exited) == 1; }));
  const proto::Event event = First(&proto::Event::has_worker_exited);
  EXPECT_EQ(event.worker_exited().signal(), SIGKILL);
  EXPECT_FALSE(event.worker_exited().asked());
  // Some milliseconds on a quiet machine; the bound allows for a busy one.
  EXPECT_LT(InstantFromNanoseconds(event.at_ns()) - killed, seconds(1));
}

TEST_F(AgentServiceTest, KillsWhatAnEndedWorkerLeavesBehind) {
  Join();
  controller_.Give(Shell(1, "tail -f /dev/null & echo $!"));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
  const pid_t child = std::atoi(ReadAll(LogOf(1, 0)).c_str());
  ASSERT_GT(child, 1);
  EXPECT_TRUE(Await([child] { return !io::ReadProcessFacts(child).ok(); })) << "reaped, too";
}

TEST_F(AgentServiceTest, OpensAStoreAndClosesItWithTheJob) {
  Join();
  proto::Command open;
  open.mutable_open_store()->set_job_id(kJob);
  open.mutable_open_store()->set_attempt(1);
  open.mutable_open_store()->set_world(2);
  controller_.Give(open);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_store_opened) == 1; }));
  const auto port =
      static_cast<uint16_t>(First(&proto::Event::has_store_opened).store_opened().port());
  EXPECT_EQ(io::ListenTcp("127.0.0.1", port).status().code(), Code::kAlreadyExists);
  proto::Command forget;
  forget.mutable_forget_job()->set_job_id(kJob);
  controller_.Give(forget);
  EXPECT_TRUE(Await([port] { return io::ListenTcp("127.0.0.1", port).ok(); }));
}

TEST_F(AgentServiceTest, WorksOnWithoutTheControllerAndCatchesUp) {
  Join();
  const pid_t pid = StartWaiting(1);
  controller_.Refuse(true);
  controller_.Drop();
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_TRUE(Await([pid] { return !io::ReadProcessFacts(pid).ok(); })) << "reaped meanwhile";
  EXPECT_EQ(Count(&proto::Event::has_worker_exited), 0);
  controller_.Refuse(false);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_agent_joined) == 2; }));
  uint64_t expected = 0;
  for (const proto::Event& event : controller_.events()) EXPECT_EQ(event.sequence(), ++expected);
  EXPECT_EQ(Count(&proto::Event::has_worker_exited), 1);
  EXPECT_TRUE(controller_.events().back().has_agent_joined());
}

TEST_F(AgentServiceTest, ProbesAndResumesAStoppedWorker) {
  Join();
  const pid_t pid = StartWaiting(1);
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  ASSERT_TRUE(Await([pid] { return io::ReadProcessFacts(pid)->state == 'T'; }));
  proto::Command probe;
  probe.mutable_probe_workers()->set_job_id(kJob);
  probe.mutable_probe_workers()->set_attempt(1);
  probe.mutable_probe_workers()->set_resume_stopped(true);
  controller_.Give(probe);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_probed) == 1; }));
  const auto worker = First(&proto::Event::has_workers_probed).workers_probed().workers(0);
  EXPECT_EQ(worker.process_state(), "T");
  EXPECT_TRUE(worker.resumed());
  EXPECT_TRUE(Await([pid] { return io::ReadProcessFacts(pid)->state != 'T'; }));
}

TEST_F(AgentServiceTest, AWorkerThatIsStoppedWhenItIsEndedIsReportedSo) {
  Join();
  const pid_t pid = StartWaiting(1);
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  ASSERT_TRUE(Await([pid] { return io::ReadProcessFacts(pid)->state == 'T'; }));
  proto::Command end;
  end.mutable_kill_workers()->set_job_id(kJob);
  end.mutable_kill_workers()->set_attempt(1);
  controller_.Give(end);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_worker_exited) == 1; }));
  const auto exited = First(&proto::Event::has_worker_exited).worker_exited();
  EXPECT_TRUE(exited.asked());
  EXPECT_TRUE(exited.was_stopped());
}

TEST_F(AgentServiceTest, LooksAtWhatAWorkerDoesForAWhile) {
  Join();
  StartWaiting(1);
  proto::Command sample;
  sample.mutable_sample_workers()->set_job_id(kJob);
  sample.mutable_sample_workers()->set_attempt(1);
  sample.mutable_sample_workers()->set_period_ns(100'000'000);
  controller_.Give(sample);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_sampled) == 1; }));
  const auto sampled = First(&proto::Event::has_workers_sampled).workers_sampled();
  ASSERT_EQ(sampled.workers_size(), 1);
  EXPECT_GT(sampled.workers(0).seen_size(), 0);
  EXPECT_GE(sampled.workers(0).period_ns(), 90'000'000);
}

TEST_F(AgentServiceTest, TellsWhatADriverReportsOfADevice) {
  options_.kernel_log = folder_ + "/kernel-log";
  ASSERT_EQ(mkfifo(options_.kernel_log.c_str(), 0600), 0);
  Join();
  const io::Fd kernel(open(options_.kernel_log.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string record =
      "4,7,100,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";
  ASSERT_EQ(write(kernel.get(), record.data(), record.size()), static_cast<ssize_t>(record.size()));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_device_error) == 1; }));
  const proto::DeviceError error = controller_.events().back().device_error();
  EXPECT_EQ(error.device(), "PCI:0000:3b:00");
  EXPECT_EQ(error.code(), 79u);
  EXPECT_TRUE(error.needs_reset());
}

TEST_F(AgentServiceTest, ShuttingDownLeavesNoProcessAndTellsAll) {
  Join();
  // The worker does not listen to SIGTERM, and has a child.
  controller_.Give(Shell(1, "trap '' TERM; tail -f /dev/null & echo $!; wait; wait"));
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_started) == 1; }));
  ASSERT_TRUE(Await([this] { return !ReadAll(LogOf(1, 0)).empty(); }));
  const auto worker = static_cast<pid_t>(LastStarted().pids(0));
  const pid_t child = std::atoi(ReadAll(LogOf(1, 0)).c_str());
  bool done = false;
  agent_->ShutDown(std::chrono::milliseconds(50), [&done] { done = true; });
  ASSERT_TRUE(Await([&done] { return done; }));
  EXPECT_FALSE(IsAlive(worker));
  EXPECT_TRUE(Await([child] { return !IsAlive(child); }));  // SIGKILL is on its way
  EXPECT_EQ(Count(&proto::Event::has_attempt_closed), 1);
}

TEST_F(AgentServiceTest, DestroyingItLeavesNoProcess) {
  Join();
  const pid_t pid = StartWaiting(1);
  agent_.reset();
  EXPECT_FALSE(io::ReadProcessFacts(pid).ok());
}

TEST_F(AgentServiceTest, TheProgramEndsInOrderOnSigterm) {
  const pthread_t main_thread = pthread_self();
  pid_t pid = 0;
  std::thread script([&] {
    const Instant end = io::MonotonicNow() + kPatience;
    const auto wait_for = [&](bool (proto::Event::*has)() const) {
      while (Count(has) == 0 && io::MonotonicNow() < end) std::this_thread::yield();
    };
    wait_for(&proto::Event::has_agent_joined);
    controller_.Give(Start(1, {"tail", "-f", "/dev/null"}));
    wait_for(&proto::Event::has_workers_started);
    pid = static_cast<pid_t>(LastStarted().pids(0));
    // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): AgentMain reads it from its signalfd
    pthread_kill(main_thread, SIGTERM);
  });
  options_.allow_root = true;
  EXPECT_EQ(AgentMain(options_), 0);
  script.join();
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(io::ReadProcessFacts(pid).ok());
  EXPECT_EQ(Count(&proto::Event::has_attempt_closed), 1);
}

// -- the worker API, from a worker's side, spoken by the test itself

// This process has the agent's user, and knows the path, the attempt and the rank: as a worker of
// another job on the same node would.
TEST_F(WorkerApiTest, RefusesAProcessThatIsNotTheWorkersWhileTheWorkerGoesOn) {
  Open(1);
  io::Fd own = std::move(socket_);
  Result<io::Fd> stranger = io::ConnectUnix(path_);
  ASSERT_TRUE(stranger.ok()) << stranger.status();
  socket_ = *std::move(stranger);
  ASSERT_EQ(fcntl(socket_.get(), F_SETFL, O_NONBLOCK), 0);
  worker_api::Hello hello;
  hello.attempt = 1;
  hello.pid = getpid();
  Send(hello);
  EXPECT_TRUE(Listen().bytes.empty()) << "the stranger was welcomed";
  EXPECT_EQ(Count(&proto::Event::has_phase_entered), 0);
  socket_ = std::move(own);
  Greet(1);
  EXPECT_TRUE(Await([this] { return Count(&proto::Event::has_phase_entered) == 1; }));
}

TEST_F(WorkerApiTest, WhatAWorkerSaysReachesTheController) {
  Open(1);
  Greet(1);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_phase_entered) == 1; }));
  EXPECT_EQ(First(&proto::Event::has_phase_entered).at_ns(), 5);
  worker_api::StepMessage step;
  step.step = 1;
  step.at_ns = 77;
  step.loss = 2.5;
  step.validation_loss = std::nan("");
  Send(step);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_step_reported) == 1; }));
  const proto::StepReported reported = First(&proto::Event::has_step_reported).step_reported();
  EXPECT_EQ(reported.loss(), 2.5);
  EXPECT_FALSE(reported.has_validation_loss());
}

// More messages than are read in one turn, and the process has ended before the first is read.
TEST_F(WorkerApiTest, TheLastMessagesOfAProcessAreReadAfterItsEnd) {
  Open(1);
  Greet(1);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_started) == 1; }));
  const auto pid = static_cast<pid_t>(LastStarted().pids(0));
  constexpr uint64_t kSteps = 100;
  for (uint64_t i = 1; i <= kSteps; ++i) {
    worker_api::StepMessage step;
    step.step = i;
    Send(step);
  }
  const std::string json = "{\"answer\": 42}";
  worker_api::ResultMessage result;
  result.header.payload_bytes = static_cast<uint32_t>(json.size());
  const std::string text =
      std::string(reinterpret_cast<const char*>(&result), sizeof(result)) + json;
  ASSERT_TRUE(io::SendMessage(socket_, std::as_bytes(std::span(text))).ok());
  const Result<io::Fd> process = io::OpenPidfd(pid);
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  pollfd ended{process->get(), POLLIN, 0};
  ASSERT_EQ(poll(&ended, 1, 10'000), 1);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
  ASSERT_EQ(Count(&proto::Event::has_worker_result), 1);
  EXPECT_EQ(First(&proto::Event::has_worker_result).worker_result().json(), json);
}

TEST_F(WorkerApiTest, AStrangerToTheProtocolIsShownOut) {
  Open(1);
  worker_api::StepMessage step;
  step.step = 1;
  Send(step);  // without Hello
  EXPECT_TRUE(Listen().bytes.empty()) << "closed";
}

TEST_F(WorkerApiTest, AWorkerOfAnotherAttemptIsShownOut) {
  Open(1);
  worker_api::Hello hello;
  hello.pid = getpid();
  hello.attempt = 2;
  Send(hello);
  EXPECT_TRUE(Listen().bytes.empty()) << "closed";
}

worker_api::ContinuesMessage Continues() {
  worker_api::ContinuesMessage continues;
  continues.attempt = 1;
  continues.pid = getpid();
  return continues;
}

TEST_F(WorkerApiTest, AWorkerThatContinuesKeepsItsProcessInTheNextAttempt) {
  Open(1);
  Send(Continues());
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_started) == 1; }));
  const auto pid = LastStarted().pids(0);
  proto::Command order;
  order.mutable_kill_workers()->set_job_id(kJob);
  order.mutable_kill_workers()->set_attempt(1);
  controller_.Give(order);
  const io::UnixMessage leave = Listen();
  ASSERT_EQ(leave.bytes.size(), sizeof(worker_api::LeaveMessage));
  Send(worker_api::LeftMessage{});
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 1; }));
  controller_.Give(Shell(2, "exit 3"));  // a new process would end at once
  const io::UnixMessage next = Listen();
  ASSERT_GT(next.bytes.size(), sizeof(worker_api::ContinueMessage));
  EXPECT_EQ(next.fds.size(), 1u) << "the log of the next attempt";
  std::string text(reinterpret_cast<const char*>(next.bytes.data()), next.bytes.size());
  std::replace(text.begin(), text.end(), '\0', '\n');
  EXPECT_NE(text.find("\nLONGHAUL_ATTEMPT=2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nTORCHELASTIC_RESTART_COUNT=1\n"), std::string::npos) << text;
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_workers_started) == 2; }));
  EXPECT_EQ(LastStarted().pids(0), pid);
  ASSERT_EQ(::kill(static_cast<pid_t>(pid), SIGKILL), 0);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_attempt_closed) == 2; }))
      << "its end is that of a worker of attempt 2";
}

TEST_F(WorkerApiTest, AConnectionForContinuingCarriesNothingElse) {
  Open(1);
  Send(Continues());
  worker_api::StepMessage step;
  step.step = 1;
  Send(step);
  EXPECT_TRUE(Listen().bytes.empty()) << "closed";
  EXPECT_EQ(Count(&proto::Event::has_step_reported), 0);
}

TEST_F(WorkerApiTest, AWorkerThatCannotContinueMustNotSayThatItHasLeft) {
  Open(1);
  Greet(1);
  Send(worker_api::LeftMessage{});
  EXPECT_TRUE(Listen().bytes.empty()) << "closed";
}

TEST_F(WorkerApiTest, AWorkerOfAnotherAttemptMustNotContinue) {
  Open(1);
  worker_api::ContinuesMessage continues = Continues();
  continues.attempt = 2;
  Send(continues);
  EXPECT_TRUE(Listen().bytes.empty()) << "closed";
}

TEST_F(WorkerApiTest, ASealedSnapshotBecomesACommittedCheckpoint) {
  Open(1);
  Greet(1);
  const checkpoint::StatePlan plan = *checkpoint::StatePlan::Create({{"weight", "U8", {1000}}});
  worker_api::ArenaRequest request;
  request.bytes = checkpoint::ArenaBytesFor(plan);
  Send(request);
  const io::UnixMessage answer = Listen();
  ASSERT_EQ(answer.fds.size(), 1u);
  const io::SharedMapping mapping = *io::SharedMapping::Map(answer.fds[0]);
  const std::vector<std::byte> weight(1000, std::byte{7});
  checkpoint::ArenaWriter writer(mapping.bytes());
  ASSERT_TRUE(writer.Begin(30, 1, plan).ok());
  writer.Write(0, weight);
  writer.Seal();
  worker_api::SealedMessage sealed;
  sealed.step = 30;
  sealed.bytes = 1000;
  Send(sealed);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_snapshot_persisted) == 1; }));

  const auto persisted = First(&proto::Event::has_snapshot_persisted).snapshot_persisted();
  proto::Command commit;
  commit.mutable_commit_snapshot()->set_job_id(kJob);
  commit.mutable_commit_snapshot()->set_attempt(1);
  commit.mutable_commit_snapshot()->set_step(30);
  commit.mutable_commit_snapshot()->set_world(1);
  *commit.mutable_commit_snapshot()->mutable_files() = persisted.files();
  controller_.Give(commit);
  ASSERT_TRUE(Await([this] { return Count(&proto::Event::has_snapshot_committed) == 1; }));
  checkpoint::CheckpointDirectory directory(io::PosixFileSystem(), folder_ + "/run/checkpoints");
  const auto state = directory.ReadPiece(30, 1, 0);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(std::ranges::equal(state->tensor(0), weight));
}

}  // namespace
}  // namespace longhaul::service
