#include "service/controller/core_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/clock.h"

namespace longhaul::service {
namespace {

// Remembers the newest acknowledgement of each node.
class Acknowledgements final : public AgentPort {
 public:
  void Deliver(const NodeId&, const proto::Command&) override {}
  void Acknowledge(const NodeId& node, uint64_t incarnation, uint64_t sequence) override {
    EXPECT_EQ(incarnation, 1u);
    std::lock_guard lock(mutex_);
    EXPECT_GE(sequence, newest_[node]) << "goes back";
    newest_[node] = sequence;
    changed_.notify_all();
  }
  void Await(const NodeId& node, uint64_t sequence) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30),
                                  [&] { return newest_[node] >= sequence; }));
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<NodeId, uint64_t> newest_;
};

class CoreLoopTest : public testing::Test {
 protected:
  CoreLoopTest() {
    std::string pattern = testing::TempDir() + "/core_loop_XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    log_ = *EventLog::Open(directory_ + "/events.db");
    feed_ = std::make_unique<NotificationFeed>(*log_);
    loop_ = *CoreLoop::Create(CoreLoopOptions(), *log_, *feed_);
  }
  ~CoreLoopTest() override {
    loop_.reset();
    feed_.reset();
    log_.reset();
    std::filesystem::remove_all(directory_);
  }

  static proto::Event EventOf(const std::string& node, uint64_t sequence) {
    proto::Event event;
    event.set_node(node);
    event.set_incarnation(1);
    event.set_sequence(sequence);
    event.set_at_ns(ToNanoseconds(io::Now()));
    if (sequence == 1) {
      event.mutable_agent_joined()->set_slots(1);
    } else {
      event.mutable_worker_result()->set_job_id("none");
    }
    return event;
  }
  static proto::Event Submission(const std::string& id) {
    proto::Event event;
    proto::Job& job = *event.mutable_job_submitted()->mutable_job();
    job.set_id(id);
    job.set_name(id);
    job.set_nodes(1000);  // never placed
    job.set_processes_per_node(1);
    job.mutable_workload()->add_command("true");
    job.mutable_snapshot()->set_keep(1);
    return event;
  }
  uint64_t Hash() const {
    return loop_->Read([](const runtime::Controller& core) { return core.StateHash(); });
  }

  std::string directory_;
  Acknowledgements port_;
  std::unique_ptr<EventLog> log_;
  std::unique_ptr<NotificationFeed> feed_;
  std::unique_ptr<CoreLoop> loop_;
};

TEST(CheckTickWorked, ADeadlineIsTickedOnce) {
  const Instant early = InstantFromNanoseconds(5);
  const Instant late = InstantFromNanoseconds(8);
  EXPECT_TRUE(CheckTickWorked(early, std::nullopt, late).ok());
  EXPECT_TRUE(CheckTickWorked(std::nullopt, early, late).ok());
  EXPECT_TRUE(CheckTickWorked(early, late, late).ok()) << "another one, due at once";
  EXPECT_TRUE(CheckTickWorked(late, late, early).ok()) << "not due yet";
  EXPECT_EQ(CheckTickWorked(early, early, early).code(), Code::kInternal);
  EXPECT_EQ(CheckTickWorked(early, early, late).code(), Code::kInternal);
}

// Agents, people and watchers, all at once.
TEST_F(CoreLoopTest, LogsEachEventOnceAndTellsEachWatcherOnce) {
  constexpr uint64_t kEvents = 200;
  constexpr int kJobs = 20;
  const std::vector<std::string> nodes = {"node-1", "node-2", "node-3"};
  loop_->Start(port_);
  std::vector<std::thread> threads;
  for (const std::string& node : nodes) {
    threads.emplace_back([this, node] {
      for (uint64_t sequence = 1; sequence <= kEvents; ++sequence) {
        EXPECT_TRUE(loop_->Push(EventOf(node, sequence), nullptr));
        EXPECT_TRUE(loop_->Push(EventOf(node, sequence), nullptr)) << "sent again";
      }
    });
  }
  threads.emplace_back([this] {
    for (int i = 0; i < kJobs; ++i) {
      const Status accepted = loop_->Apply(Submission("job-" + std::to_string(i)));
      EXPECT_TRUE(accepted.ok()) << accepted;
    }
  });
  std::vector<uint64_t> seen;
  threads.emplace_back([this, &seen] {
    uint64_t through = 0;
    for (int queued = 0; queued < kJobs;) {
      feed_->Wait(through, std::chrono::seconds(1));
      const auto batch = feed_->After(through, JobId(), 7);
      ASSERT_TRUE(batch.ok()) << batch.status();
      for (const RenderedNotification& notification : batch->notifications) {
        seen.push_back(notification.id);
        queued += notification.kind == "state" ? 1 : 0;
      }
      through = batch->through;
    }
  });
  for (const std::string& node : nodes) port_.Await(NodeId(node), kEvents);
  for (std::thread& thread : threads) thread.join();
  loop_->Stop();
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << "reported twice";

  uint64_t from_agents = 0;
  ASSERT_TRUE(log_->Replay([&](uint64_t, Instant, const proto::Event& event) {
                    from_agents += event.sequence() > 0 ? 1 : 0;
                    return Status();
                  })
                  .ok());
  EXPECT_EQ(from_agents, nodes.size() * kEvents);
  const uint64_t hash = Hash();
  loop_ = *CoreLoop::Create(CoreLoopOptions(), *log_, *feed_);
  EXPECT_EQ(Hash(), hash);
}

TEST_F(CoreLoopTest, ARefusedSubmissionLeavesNoTrace) {
  loop_->Start(port_);
  ASSERT_TRUE(loop_->Apply(Submission("twice")).ok());
  const uint64_t logged = loop_->logged_events();
  EXPECT_EQ(loop_->Apply(Submission("twice")).code(), Code::kAlreadyExists);
  EXPECT_EQ(loop_->logged_events(), logged);
}

// All jobs of a file are in one event, so a crash leaves all of them or none.
TEST_F(CoreLoopTest, SeveralJobsAreOneEventOrNone) {
  loop_->Start(port_);
  ASSERT_TRUE(loop_->Apply(Submission("first")).ok());  // after the start's own event
  proto::Event event;
  for (const char* id : {"a-1", "b-1"}) {
    *event.mutable_jobs_submitted()->add_jobs() = Submission(id).job_submitted().job();
  }
  proto::Job& array = *event.mutable_jobs_submitted()->add_jobs();
  array = Submission("sweep-1").job_submitted().job();
  array.mutable_array()->set_count(100'000);
  const uint64_t before = loop_->logged_events();
  EXPECT_EQ(loop_->Apply(event).code(), Code::kInvalidArgument);
  EXPECT_EQ(loop_->logged_events(), before);
  const auto jobs = [this] {
    return loop_->Read(
        [](const runtime::Controller& core) { return core.AllJobs(io::Now()).size(); });
  };
  EXPECT_EQ(jobs(), 1u);
  array.mutable_array()->set_count(50);
  ASSERT_TRUE(loop_->Apply(event).ok());
  EXPECT_EQ(loop_->logged_events(), before + 1);
  EXPECT_EQ(jobs(), 53u);
  loop_->Stop();
  const uint64_t hash = Hash();
  loop_ = *CoreLoop::Create(CoreLoopOptions(), *log_, *feed_);
  EXPECT_EQ(Hash(), hash);
  EXPECT_EQ(jobs(), 53u);
}

TEST_F(CoreLoopTest, WhoWaitsWhenItStopsIsAnswered) {
  loop_->Start(port_);
  std::vector<std::future<Status>> answers;
  for (int i = 0; i < 4; ++i) {
    answers.push_back(std::async(std::launch::async, [this, i] {
      Status status;
      for (int n = 0; status.ok(); ++n) {
        status = loop_->Apply(Submission(std::to_string(i) + "-" + std::to_string(n)));
      }
      return status;
    }));
  }
  std::promise<void> looked;
  ASSERT_TRUE(loop_->Post([&](const runtime::Controller&) { looked.set_value(); }));
  looked.get_future().wait();
  loop_->Stop();
  for (auto& answer : answers) EXPECT_EQ(answer.get().code(), Code::kUnavailable);
  EXPECT_FALSE(loop_->Push(EventOf("node-1", 1), nullptr));
}

TEST_F(CoreLoopTest, HandlesAnEventOnlyIfItsConditionHolds) {
  loop_->Start(port_);
  const auto exists = [](const runtime::Controller& core) {
    return core.JobStatus(JobId("one"), io::Now()).has_value();
  };
  const auto refuse = [](const runtime::Controller&) { return Aborted("it has changed"); };
  EXPECT_EQ(loop_->Apply(Submission("one"), refuse).code(), Code::kAborted);
  EXPECT_FALSE(loop_->Read(exists));
  const auto is_new = [&](const runtime::Controller& core) {
    return exists(core) ? Aborted("called after the event") : Status();
  };
  EXPECT_EQ(loop_->Apply(Submission("one"), is_new), Status());
  EXPECT_TRUE(loop_->Read(exists));
}

TEST_F(CoreLoopTest, ReadsACoreWhoseEveryEventIsInTheFeed) {
  loop_->Start(port_);
  for (int i = 0; i < 20; ++i) {
    const JobId id("job-" + std::to_string(i));
    ASSERT_TRUE(loop_->Push(Submission(id.value()), nullptr));
    const auto read = loop_->ReadLogged([&](const runtime::Controller& core) {
      const auto batch = feed_->After(0, id, 10);
      return std::pair(core.JobStatus(id, io::Now()).has_value(),
                       batch.ok() ? batch->notifications.size() : 0);
    });
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(read->first);
    EXPECT_GT(read->second, 0u);
  }
}

}  // namespace
}  // namespace longhaul::service
