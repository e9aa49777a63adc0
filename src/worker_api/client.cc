#include "worker_api/client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/reshard/load_state.h"
#include "io/clock.h"
#include "io/files/file.h"
#include "io/memory/private_memory.h"
#include "io/net/socket.h"

namespace longhaul::worker_api {
namespace {

constexpr int kWelcomeWaitMs = 60'000;  // an agent that is busy starting hundreds of workers
constexpr uint32_t kTierNone = 0;       // proto::Restore::Tier
constexpr uint32_t kTierMemory = 1;
constexpr uint32_t kTierPieces = 5;
constexpr uint32_t kWayCopied = 1;  // proto::SnapshotWay
constexpr uint32_t kWayGuarded = 2;
constexpr uint32_t kWayForked = 3;

// A planned fault that does not come, because the controller is gone or late, delays the worker by
// this much.
constexpr Duration kFaultMayTake = std::chrono::seconds(10);
constexpr int kFaultPollMs = 100;

constexpr unsigned kPinnedPollUs = 200;

// Guarding a state in huge pages takes 0.1 us a MiB, in pages of 4 KiB 10 to 20 (measured), and to
// start a thread a millisecond at worst. In between the state is moved to huge pages.
constexpr Duration kGuardMayTake = std::chrono::microseconds(4);  // a MiB
constexpr Duration kGuardStartMayTake = std::chrono::milliseconds(2);

constexpr size_t kMostThreads = 64;

// The number, at least 1, that a variable of the environment holds, or `otherwise`.
size_t NumberFrom(const char* variable, size_t otherwise) {
  const char* given = std::getenv(variable);
  if (given == nullptr) return otherwise;
  const Result<uint64_t> number = ParseUint64(given);
  return number.ok() && *number >= 1 ? *number : otherwise;
}

size_t Cores() { return std::max<size_t>(1, std::thread::hardware_concurrency()); }

// One thread fills the memory bus of small machines; a share of the cores is for large ones. The
// variables are for measurements.
size_t SnapshotThreads() {
  constexpr size_t kCoresAThread = 16, kMost = 8;
  const size_t share = std::clamp<size_t>(Cores() / kCoresAThread, 1, kMost);
  return std::min(NumberFrom("LONGHAUL_SNAPSHOT_THREADS", share), kMostThreads);
}

// This rank's share of the cores: nothing trains during a restore. Most of its time goes into
// making the pages of the memory that is filled, which several threads do at a time.
size_t RestoreThreads() {
  constexpr size_t kMost = 8;
  const size_t share = std::clamp<size_t>(Cores() / NumberFrom("LOCAL_WORLD_SIZE", 1), 1, kMost);
  return std::min(NumberFrom("LONGHAUL_RESTORE_THREADS", share), kMostThreads);
}

Status AgentGone() { return Unavailable("the agent is gone; this worker should end"); }

// Waits until the socket can be read; false when it can't within the time.
Result<bool> WaitReadable(const io::Fd& socket, int wait_ms) {
  pollfd wanted{socket.get(), POLLIN, 0};
  while (true) {
    const int ready = poll(&wanted, 1, wait_ms);
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) return FromErrno(errno, "cannot wait for the agent");
  }
}

// What the controller chose to restore from disk.
checkpoint::StepOfRank StepOf(const WelcomeContent& welcome) {
  return {welcome.checkpoint_directory, welcome.restore_step, welcome.restore_saved_attempt,
          welcome.restore_rank};
}

}  // namespace

Result<int64_t> ProcessStartedAt() {
  ASSIGN_OR_RETURN(const std::string stat, io::ReadText("/proc/self/stat", 4096));
  // The second field is the command in parentheses, which may hold anything; what follows the last
  // one is counted from the third.
  const size_t after = stat.rfind(')');
  if (after == std::string::npos || after + 2 > stat.size())
    return InternalError("odd /proc/self/stat");
  const std::vector<std::string_view> fields = Split(std::string_view(stat).substr(after + 2), ' ');
  constexpr size_t kStartTime = 22 - 3;
  if (fields.size() <= kStartTime) return InternalError("short /proc/self/stat");
  ASSIGN_OR_RETURN(const int64_t ticks, ParseInt64(fields[kStartTime]));
  timespec since_boot{};
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  const int64_t boot_ns = int64_t{since_boot.tv_sec} * 1'000'000'000 + since_boot.tv_nsec;
  const int64_t start_ns = ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK));
  return ToNanoseconds(io::Now()) - boot_ns + start_ns;
}

Result<std::unique_ptr<Client>> Client::Join(io::Fd socket, uint32_t rank, uint64_t attempt) {
  std::unique_ptr<Client> client(new Client(std::move(socket), attempt));
  client->fault_step_ = NumberFrom("LONGHAUL_FAULT_STEP", 0);
  Hello hello;
  hello.rank = rank;
  hello.attempt = attempt;
  hello.pid = getpid();
  ASSIGN_OR_RETURN(hello.started_at_ns, ProcessStartedAt());
  RETURN_IF_ERROR(client->Send(hello));
  RETURN_IF_ERROR(client->AwaitWelcome());
  return client;
}

Status Client::AwaitWelcome() {
  WelcomeAssembler assembler;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<FromAgent> message, Receive(kWelcomeWaitMs, nullptr));
    if (!message) return Unavailable("the agent doesn't answer");
    const auto* part = std::get_if<WelcomePart>(&*message);
    if (part == nullptr) continue;
    ASSIGN_OR_RETURN(std::optional<WelcomeContent> content, assembler.Add(*part));
    if (!content) continue;
    welcome_ = *std::move(content);
    interval_steps_ = welcome_.snapshot_interval_steps;
    last_snapshot_step_ = welcome_.restore_step;
    restored_ = welcome_.restore_tier == kTierNone;
    return {};
  }
}

Status Client::Send(std::span<const std::byte> packet) {
  if (gone_) return AgentGone();
  const Status sent = io::SendMessage(socket_, packet);
  if (sent.ok() || sent.code() == Code::kInvalidArgument) return sent;
  gone_ = true;
  return AgentGone();
}

template <typename Message>
Status Client::Send(Message message, std::string_view payload) {
  message.header.payload_bytes = static_cast<uint32_t>(payload.size());
  std::vector<std::byte> packet(sizeof(Message) + payload.size());
  std::memcpy(packet.data(), &message, sizeof(Message));
  if (!payload.empty()) {
    std::memcpy(packet.data() + sizeof(Message), payload.data(), payload.size());
  }
  return Send(std::span<const std::byte>(packet));
}

Result<std::optional<FromAgent>> Client::Receive(int wait_ms, io::Fd* descriptor) {
  if (gone_) return AgentGone();
  ASSIGN_OR_RETURN(const bool readable, WaitReadable(socket_, wait_ms));
  if (!readable) return std::optional<FromAgent>();
  Result<std::optional<io::UnixMessage>> message = io::ReceiveMessage(socket_, kMaxMessageBytes);
  if (!message.ok() || (*message && (*message)->bytes.empty())) {
    gone_ = true;
    return AgentGone();
  }
  if (!*message) return std::optional<FromAgent>();
  ASSIGN_OR_RETURN(FromAgent parsed, ParseFromAgent((*message)->bytes));
  if (const auto* interval = std::get_if<SnapshotIntervalMessage>(&parsed)) {
    interval_steps_ = interval->steps;
  }
  if (descriptor != nullptr && !(*message)->fds.empty()) {
    *descriptor = std::move((*message)->fds.front());
  }
  return std::optional(std::move(parsed));
}

Status Client::EnterPhase(uint32_t phase) {
  if (phase < 1 || phase > 5) return InvalidArgument("unknown phase " + std::to_string(phase));
  PhaseMessage message;
  message.phase = phase;
  message.at_ns = ToNanoseconds(io::Now());
  return Send(message);
}

Status Client::ReportStep(StepMessage step) {
  if (step.step == 0) return InvalidArgument("steps are counted from 1");
  NoteStaged();
  step.at_ns = ToNanoseconds(io::Now());
  step.snapshot_ns += std::exchange(unreported_snapshot_ns_, 0);
  RETURN_IF_ERROR(Send(step));
  if (fault_step_ > 0 && step.step >= fault_step_) AwaitFault();
  return {};
}

void Client::AwaitFault() {
  fault_step_ = 0;  // it is waited for once
  const Instant end = io::MonotonicNow() + kFaultMayTake;
  while (io::MonotonicNow() < end) {
    if (!Receive(kFaultPollMs, nullptr).ok()) return;
  }
}

Status Client::SendResult(std::string_view json) {
  if (json.size() > kMaxResultBytes) return InvalidArgument("a result has at most 64 KiB");
  return Send(ResultMessage{}, json);
}

void Client::Register(checkpoint::StatePlan plan, std::vector<std::span<std::byte>> memory) {
  CHECK(memory.size() == plan.size());
  (void)WaitSnapshot();  // of the old memory
  StopMakingHuge();
  if (plan_ != plan) ways_ = {};
  made_huge_ = false;
  known_private_ = false;
  plan_ = std::move(plan);
  memory_ = std::move(memory);
  registered_ = true;
  // The arena's pages are made from now on asynchronously, so that the first snapshot costs no more
  // than the others. If there is none to be had, the first snapshot says so.
  if (restored_) (void)PrepareArena();
}

bool Client::SnapshotDue(uint64_t step) {
  NoteStaged();
  // Whatever the agent has said meanwhile; if it is gone, the next call says so.
  while (true) {
    const Result<std::optional<FromAgent>> message = Receive(0, nullptr);
    if (!message.ok() || !*message) break;
  }
  if (staged_ != nullptr) return false;  // one at a time
  return !gone_ && interval_steps_ > 0 && step >= last_snapshot_step_ + interval_steps_;
}

Status Client::TakeArena(uint64_t bytes) {
  ArenaRequest request;
  request.bytes = bytes;
  RETURN_IF_ERROR(Send(request));
  while (true) {
    io::Fd descriptor;
    ASSIGN_OR_RETURN(const std::optional<FromAgent> message, Receive(-1, &descriptor));
    const ArenaAnswer* answer = message ? std::get_if<ArenaAnswer>(&*message) : nullptr;
    if (answer == nullptr) continue;
    if (!descriptor.valid()) {
      return ResourceExhausted("the agent gives no arena: " + Printable(answer->reason));
    }
    mapper_.reset();  // of the arena before
    ASSIGN_OR_RETURN(arena_, io::SharedMapping::Map(descriptor));
    mapper_ = std::make_unique<io::PageMapper>(arena_.bytes());
    return {};
  }
}

Status Client::Snapshot(uint64_t step) {
  if (!registered_) return FailedPrecondition("no state is registered");
  if (step == 0) return InvalidArgument("steps are counted from 1");
  // One that failed returned its error to whoever waited for it, or is not reported now.
  (void)WaitSnapshot();
  return CopyNow(step);
}

Status Client::CopyNow(uint64_t step) {
  const Instant begin = io::MonotonicNow();
  // Also after a failure: to try again at every step would cost more than the snapshot is worth.
  last_snapshot_step_ = step;
  const Status written = WriteSnapshot(step);
  const Duration blocked = io::MonotonicNow() - begin;
  unreported_snapshot_ns_ += blocked.count();
  RETURN_IF_ERROR(written);
  ways_.Direct(blocked);
  return ReportSealed(step, blocked.count(), kWayCopied);
}

Status Client::BeginSnapshot(uint64_t step) {
  if (!registered_) return FailedPrecondition("no state is registered");
  if (step == 0) return InvalidArgument("steps are counted from 1");
  RETURN_IF_ERROR(WaitSnapshot());
  if (ways_.Next() == SnapshotWays::Way::kDirect) return CopyNow(step);
  const Instant begin = io::MonotonicNow();
  last_snapshot_step_ = step;
  const Status started = StartSnapshot(step);
  copying_blocked_ns_ = (io::MonotonicNow() - begin).count();
  unreported_snapshot_ns_ += copying_blocked_ns_;
  return started;
}

Status Client::BeginStagedSnapshot(uint64_t step, Duration stopped, std::function<Status()> ready) {
  if (!registered_) return FailedPrecondition("no state is registered");
  if (step == 0) return InvalidArgument("steps are counted from 1");
  if (stopped < Duration(0)) return InvalidArgument("a time is not negative");
  RETURN_IF_ERROR(WaitSnapshot());
  const Instant begin = io::MonotonicNow();
  last_snapshot_step_ = step;
  auto opened = OpenSlot(step);
  copying_blocked_ns_ = (io::MonotonicNow() - begin + stopped).count();
  unreported_snapshot_ns_ += copying_blocked_ns_;
  if (!opened.ok()) return opened.status();
  copying_step_ = step;
  staged_ = std::make_unique<StagedCopy>(*std::move(opened), Tensors(), SnapshotThreads(),
                                         std::move(ready));
  return {};
}

Status Client::WaitStaged() {
  const Instant begin = io::MonotonicNow();
  const Status finished = staged_->Finish();
  staged_.reset();
  const int64_t waited_ns = (io::MonotonicNow() - begin).count();
  unreported_snapshot_ns_ += waited_ns;
  RETURN_IF_ERROR(finished);
  return ReportSealed(copying_step_, copying_blocked_ns_ + waited_ns, kWayGuarded);
}

void Client::NoteStaged() {
  if (staged_ != nullptr && staged_->done()) staged_failure_ = WaitStaged();
}

Status Client::WaitSnapshot() {
  if (staged_ != nullptr) return WaitStaged();
  RETURN_IF_ERROR(std::exchange(staged_failure_, {}));
  if (copying_ == nullptr) return {};
  const Instant begin = io::MonotonicNow();
  const Status finished = copying_->Finish();
  const checkpoint::ArenaWriter::Cost cost = copying_->cost();
  copying_.reset();
  const int64_t waited_ns = (io::MonotonicNow() - begin).count();
  unreported_snapshot_ns_ += waited_ns;
  if (finished.ok()) {
    ways_.Asynchronous(Duration(copying_blocked_ns_ + waited_ns) + cost.held_up, cost.copying);
  }
  MakeStateHuge();
  RETURN_IF_ERROR(finished);
  return ReportSealed(copying_step_, copying_blocked_ns_ + waited_ns, copying_way_);
}

Client::~Client() {
  (void)WaitSnapshot();
  StopMakingHuge();
}

void Client::MakeStateHuge() {
  if (!costly_pages_ || std::exchange(made_huge_, true)) return;
  making_huge_ = std::thread([this, pages = io::WholeHugePages(Tensors())] {
    for (const uintptr_t page : pages) {
      // A kernel that refuses the first refuses all.
      if (stop_making_huge_ || (!io::MakeHuge(page) && page == pages[0])) return;
    }
  });
}

void Client::StopMakingHuge() {
  if (!making_huge_.joinable()) return;
  stop_making_huge_ = true;
  making_huge_.join();
  stop_making_huge_ = false;
}

Status Client::ReportSealed(uint64_t step, int64_t blocked_ns, uint32_t way) {
  SealedMessage sealed;
  sealed.step = step;
  sealed.blocked_ns = blocked_ns;
  sealed.waited_ns = waited_for_slot_ns_;
  sealed.way = way;
  sealed.bytes = plan_.total_bytes();
  return Send(sealed, ways_.InWords());
}

// Makes sure of an arena of the state's size.
Status Client::PrepareArena() {
  const uint64_t wanted = checkpoint::ArenaBytesFor(plan_);
  if (arena_.bytes().size() >= wanted) return {};
  RETURN_IF_ERROR(TakeArena(wanted));
  // An arena that was there before this process may hold steps that the gang has left behind.
  const bool fresh = welcome_.restore_tier == kTierNone;
  checkpoint::ArenaWriter(arena_.bytes()).DropAbove(fresh ? 0 : welcome_.restore_step);
  return {};
}

Result<std::unique_ptr<checkpoint::ArenaWriter>> Client::OpenSlot(uint64_t step) {
  RETURN_IF_ERROR(PrepareArena());
  auto writer = std::make_unique<checkpoint::ArenaWriter>(arena_.bytes());
  const Instant begin = io::MonotonicNow();
  waited_for_slot_ns_ = 0;
  for (Instant reported = begin;;) {
    const Status opened = writer->Begin(step, attempt_, plan_);
    if (opened.ok()) {
      mapper_->Wait(writer->open_end());
      return writer;
    }
    // Back-pressure: who sends or persists an older snapshot finishes it first. One that ends
    // without finishing holds nothing any more, so this continues as long as somebody is at work.
    if (opened.code() != Code::kUnavailable) return opened;
    const Instant now = io::MonotonicNow();
    if (now - reported >= report_waits_every_) {
      reported = now;
      WaitsMessage waits;
      waits.step = step;
      waits.waited_ns = (now - begin).count();
      RETURN_IF_ERROR(Send(waits, std::string_view(writer->holders()).substr(0, 4096)));
    }
    usleep(kPinnedPollUs);
    waited_for_slot_ns_ = (io::MonotonicNow() - begin).count();
  }
}

Status Client::WriteSnapshot(uint64_t step) {
  ASSIGN_OR_RETURN(const auto writer, OpenSlot(step));
  writer->WriteAll(Tensors(), SnapshotThreads());
  writer->Seal();
  return {};
}

Status Client::StartSnapshot(uint64_t step) {
  const auto tensors = Tensors();
  if (!known_private_) RETURN_IF_ERROR(io::CheckPrivate(tensors));
  known_private_ = true;
  ASSIGN_OR_RETURN(auto writer, OpenSlot(step));
  // LONGHAUL_SNAPSHOT_FORK=1 is for comparisons, and for who doesn't want a thread of ours.
  const char* fork = std::getenv("LONGHAUL_SNAPSHOT_FORK");
  if (!guard_.has_value()) {
    const bool wanted = fork == nullptr || std::strcmp(fork, "1") != 0;
    guard_.emplace(wanted ? io::WriteGuard::Create() : Unavailable("not wanted"));
  }
  const Instant begin = io::MonotonicNow();
  if (guard_->ok() && !writer->StartLiveCopy(tensors, **guard_).ok()) {
    guard_.emplace(Unavailable("this memory can't be guarded"));
  }
  const Duration may_take = kGuardMayTake * static_cast<int64_t>(plan_.total_bytes() >> 20);
  costly_pages_ = guard_->ok() && io::MonotonicNow() - begin > may_take + kGuardStartMayTake;
  copying_way_ = writer->copying() ? kWayGuarded : kWayForked;
  if (!writer->copying()) RETURN_IF_ERROR(writer->StartCopy(tensors));
  copying_ = std::move(writer);
  copying_step_ = step;
  return {};
}

Status Client::RestoreFromMemory() {
  // Saved may have it already, and its pages are mapped once then.
  if (arena_.bytes().empty()) RETURN_IF_ERROR(TakeArena(0));
  const checkpoint::ArenaReader reader(arena_.bytes());
  RETURN_IF_ERROR(reader.CopyInto(welcome_.restore_step, plan_, memory_, RestoreThreads()));
  checkpoint::ArenaWriter(arena_.bytes()).DropAbove(welcome_.restore_step);
  return {};
}

// Whatever layout it was saved in.
Status Client::RestoreFromDisk() {
  return checkpoint::LoadState(io::PosixFileSystem(), StepOf(welcome_), plan_, memory_).status();
}

Result<io::SharedMapping> Client::AskForPieces(const checkpoint::StatePlan* plan, uint64_t* bytes) {
  PiecesRequest request;
  io::Fd memory;
  if (plan != nullptr) {
    const std::string encoded = plan->Encode();
    request.plan_bytes = encoded.size();
    ASSIGN_OR_RETURN(
        memory, io::CreateSharedMemory("longhaul-plan", Bytes(static_cast<int64_t>(encoded.size())),
                                       false));
    ASSIGN_OR_RETURN(const io::SharedMapping mapping, io::SharedMapping::Map(memory));
    std::memcpy(mapping.bytes().data(), encoded.data(), encoded.size());
  }
  if (gone_) return AgentGone();
  const int fd = memory.get();
  const Status sent = io::SendMessage(socket_, std::as_bytes(std::span(&request, 1)),
                                      {&fd, memory.valid() ? size_t{1} : size_t{0}});
  gone_ = !sent.ok();
  while (true) {
    io::Fd descriptor;
    ASSIGN_OR_RETURN(const std::optional<FromAgent> message, Receive(-1, &descriptor));
    const PiecesAnswer* answer = message ? std::get_if<PiecesAnswer>(&*message) : nullptr;
    if (answer == nullptr) continue;
    if (!descriptor.valid()) {
      const std::string reason = Printable(answer->reason, 4096);
      return answer->of_another_state ? FailedPrecondition(reason) : DataLoss(reason);
    }
    *bytes = answer->bytes;
    return io::SharedMapping::Map(descriptor);
  }
}

// Whatever layout sealed it: the agent reads the boxes together, from its own memory and others'.
Status Client::RestoreFromPieces() {
  uint64_t bytes = 0;
  ASSIGN_OR_RETURN(const io::SharedMapping gathered, AskForPieces(&plan_, &bytes));
  return checkpoint::ArenaReader(gathered.bytes())
      .CopyInto(welcome_.restore_step, plan_, memory_, RestoreThreads());
}

Status Client::CopyIsBad(const Status& why) {
  RestoreFailedMessage failed;
  failed.step = welcome_.restore_step;
  failed.tier = welcome_.restore_tier;
  RETURN_IF_ERROR(Send(failed, std::string_view(why.message()).substr(0, 4096)));
  return DataLoss(why.message());
}

Result<checkpoint::StatePlan> Client::PlanOfSaved() {
  if (welcome_.restore_tier == kTierMemory) {
    RETURN_IF_ERROR(TakeArena(0));
    return checkpoint::ArenaReader(arena_.bytes()).Plan(welcome_.restore_step);
  }
  if (welcome_.restore_tier == kTierPieces) {
    uint64_t bytes = 0;
    ASSIGN_OR_RETURN(const io::SharedMapping encoded, AskForPieces(nullptr, &bytes));
    if (bytes > encoded.bytes().size()) return DataLoss("a plan longer than its memory");
    return checkpoint::StatePlan::Decode(
        {reinterpret_cast<const char*>(encoded.bytes().data()), bytes});
  }
  return checkpoint::SavedPlan(io::PosixFileSystem(), StepOf(welcome_));
}

Result<checkpoint::StatePlan> Client::Saved() {
  if (welcome_.restore_tier == kTierNone) return checkpoint::StatePlan();
  Result<checkpoint::StatePlan> plan = PlanOfSaved();
  if (plan.ok()) return plan;
  if (gone_) return AgentGone();
  return CopyIsBad(plan.status());
}

Result<uint64_t> Client::Restore() {
  (void)WaitSnapshot();
  const Instant begin = io::MonotonicNow();
  const uint32_t tier = welcome_.restore_tier;
  const uint64_t step = tier == kTierNone ? 0 : welcome_.restore_step;
  if (tier != kTierNone) {
    if (!registered_) return FailedPrecondition("no state is registered");
    const Status status = tier == kTierMemory   ? RestoreFromMemory()
                          : tier == kTierPieces ? RestoreFromPieces()
                                                : RestoreFromDisk();
    if (gone_) return AgentGone();
    // Another state than the one registered is the program's fault: the copy is good.
    if (status.code() == Code::kFailedPrecondition) return status;
    if (!status.ok()) return CopyIsBad(status);
  }
  restored_ = true;
  if (registered_ && !PrepareArena().ok() && gone_) return AgentGone();
  RestoredMessage restored;
  restored.step = step;
  restored.tier = tier;
  restored.took_ns = (io::MonotonicNow() - begin).count();
  RETURN_IF_ERROR(Send(restored));
  last_snapshot_step_ = step;
  return step;
}

}  // namespace longhaul::worker_api
