#include "service/agent/fork_server/fork_server_link.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "io/net/socket.h"
#include "service/agent/output/worker_output.h"

namespace longhaul::service {
namespace {

constexpr int kSocketThere = 3;

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

}  // namespace

ForkServerCommand TrainerForkServer(const std::string& trainer) {
  ForkServerCommand command;
  command.argv = {trainer, "--fork-server", std::to_string(kSocketThere)};
  command.environment = io::CurrentEnvironment();
  // One thread or no fork: the libraries' pools start in the workers.
  command.environment["OMP_NUM_THREADS"] = "1";
  command.environment["OPENBLAS_NUM_THREADS"] = "1";
  return command;
}

Result<std::unique_ptr<ForkServerLink>> ForkServerLink::Start(
    io::EventLoop& loop, const ForkServerCommand& command, const std::string& log_path,
    const std::optional<io::UserAccount>& user, Duration patience) {
  ASSIGN_OR_RETURN(auto ends, io::UnixPair());
  ASSIGN_OR_RETURN(const io::Fd log, OpenLog(log_path));
  io::ProcessOptions options;
  options.argv = command.argv;
  options.environment = command.environment;
  options.working_directory = command.working_directory;
  options.stdout_fd = log.get();
  options.stderr_fd = log.get();
  options.inherited = {{ends.second.get(), kSocketThere}};
  options.signal_on_parent_death = SIGKILL;
  options.user = user;
  ASSIGN_OR_RETURN(io::Process process, io::Start(options));
  // Our end must never block the loop.
  const int flags = fcntl(ends.first.get(), F_GETFL);
  fcntl(ends.first.get(), F_SETFL, flags | O_NONBLOCK);
  return std::unique_ptr<ForkServerLink>(
      new ForkServerLink(loop, std::move(process), std::move(ends.first), log_path, patience));
}

ForkServerLink::ForkServerLink(io::EventLoop& loop, io::Process process, io::Fd socket,
                               std::string log_path, Duration patience)
    : loop_(loop),
      process_(std::move(process)),
      socket_(std::move(socket)),
      log_path_(std::move(log_path)),
      log_begin_(SizeOf(log_path_)),
      patience_(patience) {
  loop_.Watch(socket_.get(), false, [this](bool, bool) { Read(); });
}

ForkServerLink::~ForkServerLink() {
  waiting_.clear();
  End({});
}

void ForkServerLink::Fork(const std::map<std::string, std::string>& environment,
                          const std::vector<std::string>& arguments, int output, Answer answer) {
  if (!alive_) return answer(Unavailable("the fork server has ended"));
  worker_api::WarmStart start;
  start.id = next_id_++;
  start.environment = environment;
  start.arguments = arguments;
  const Result<std::vector<std::byte>> packet = worker_api::EncodeWarmRequest(start);
  if (!packet.ok()) return answer(packet.status());
  const std::array<int, 2> outputs{output, output};
  if (const Status sent = io::SendMessage(socket_, *packet, outputs); !sent.ok()) {
    return answer(sent.WithContext("asking the fork server for a worker"));
  }
  waiting_.emplace(start.id, std::move(answer));
  if (has_answered_ || timer_ != 0) return;
  // From the first request on: one that was started in advance may wait for days.
  timer_ = loop_.After(patience_, [this] {
    timer_ = 0;
    End(Unavailable("the fork server has not answered in time"));
  });
}

void ForkServerLink::Read() {
  for (;;) {
    const Result<std::optional<io::UnixMessage>> message =
        io::ReceiveMessage(socket_, worker_api::kMaxWarmRequestBytes);
    if (message.ok() && !message->has_value()) return;
    worker_api::WarmReply reply;
    if (!message.ok() || (*message)->bytes.size() != sizeof(reply)) return EndByItself();
    std::memcpy(&reply, (*message)->bytes.data(), sizeof(reply));
    const auto found = waiting_.find(reply.id);
    if (reply.magic != worker_api::kWarmMagic || found == waiting_.end()) {
      return End(InternalError("the fork server gave an answer that nobody asked for"));
    }
    StopTimer();
    has_answered_ = true;
    has_served_ = has_served_ || reply.error_number == 0;
    const Answer answer = std::move(found->second);
    waiting_.erase(found);
    if (reply.error_number != 0) {
      answer(FromErrno(static_cast<int>(reply.error_number), "cannot fork a worker"));
    } else {
      answer(reply.pid);
    }
  }
}

// Its last words, or how it has ended, are the reason.
void ForkServerLink::EndByItself() {
  const Result<io::ExitStatus> status = Stop();
  const std::string last = LastLines(log_path_, log_begin_);
  if (!last.empty()) return Fail(Unavailable("the fork server has ended: " + last));
  if (status.ok() && status->exit_code == 0) {
    return Fail(FailedPrecondition("the fork server has ended"));
  }
  Fail(Unavailable("the fork server has crashed, see " + log_path_));
}

void ForkServerLink::End(const Status& why) {
  if (!alive_) return;
  (void)Stop();
  Fail(why);
}

Result<io::ExitStatus> ForkServerLink::Stop() {
  alive_ = false;
  StopTimer();
  loop_.Unwatch(socket_.get());
  socket_.Reset();
  // It holds no state: whatever it does, it may go, and with it the spares in its group, which are
  // children of this process by the time that the server has ended.
  (void)io::SignalGroup(process_.pid, SIGKILL);
  Result<io::ExitStatus> status = io::Reap(process_.pidfd);
  siginfo_t info{};
  while (waitid(P_PGID, static_cast<id_t>(process_.pid), &info, WEXITED) == 0) {
  }
  return status;
}

void ForkServerLink::StopTimer() {
  if (timer_ != 0) loop_.Cancel(std::exchange(timer_, 0));
}

void ForkServerLink::Fail(const Status& why) {
  for (auto& [id, answer] : std::exchange(waiting_, {})) answer(why);
}

}  // namespace longhaul::service
