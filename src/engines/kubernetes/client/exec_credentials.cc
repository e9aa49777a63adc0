#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engines/kubernetes/client/credentials.h"
#include "io/clock.h"
#include "io/process/process.h"

namespace longhaul::engines::kubernetes {
namespace {

constexpr size_t kMaxOutputBytes = 1 << 20;
constexpr Duration kRenewBefore = std::chrono::seconds(30);  // before the credentials expire
constexpr Duration kLeastAge = std::chrono::seconds(5);      // of credentials that are replaced

// One run of the program, watched by the loop.
class PluginRun {
 public:
  using Done = std::function<void(Result<std::string> output)>;

  PluginRun(io::EventLoop& loop, const ExecSettings& settings, Done done)
      : loop_(loop), settings_(settings), done_(std::move(done)) {}

  // Ends the program if it still runs.
  ~PluginRun() {
    StopWatching();
    if (!running_) return;
    (void)io::SignalGroup(process_.pid, SIGKILL);
    (void)io::Reap(process_.pidfd);
  }

  PluginRun(const PluginRun&) = delete;
  PluginRun& operator=(const PluginRun&) = delete;

  // On success `done` is called later; otherwise it is not.
  Status Start() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
    output_ = io::Fd(ends[0]);
    io::Fd writer(ends[1]);
    // Only our end: the program expects to write without EAGAIN.
    if (fcntl(output_.get(), F_SETFL, O_NONBLOCK) != 0)
      return FromErrno(errno, "cannot use a pipe");
    io::ProcessOptions options;
    options.argv.push_back(settings_.plugin.command);
    options.argv.insert(options.argv.end(), settings_.plugin.arguments.begin(),
                        settings_.plugin.arguments.end());
    options.environment = settings_.environment;
    for (const auto& [name, value] : settings_.plugin.environment) {
      options.environment[name] = value;
    }
    options.environment["KUBERNETES_EXEC_INFO"] = settings_.exec_info;
    options.stdout_fd = writer.get();
    ASSIGN_OR_RETURN(process_, io::Start(options));
    running_ = true;
    loop_.Watch(output_.get(), false, [this](bool, bool) { ReadOutput(); });
    loop_.Watch(process_.pidfd.get(), false, [this](bool, bool) { OnExit(); });
    timer_ = loop_.After(settings_.limit, [this] {
      timer_.reset();
      Finish(DeadlineExceeded("did not end within " + longhaul::ToString(settings_.limit)));
    });
    return Status();
  }

 private:
  void ReadOutput() {
    std::array<char, 4096> buffer;
    while (true) {
      const ssize_t got = read(output_.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) break;
      text_.append(buffer.data(), static_cast<size_t>(got));
      if (text_.size() > kMaxOutputBytes) {
        return Finish(ResourceExhausted("printed more than 1 MiB"));
      }
    }
    loop_.Unwatch(output_.get());
    ended_output_ = true;
    if (exit_) Conclude();
  }

  void OnExit() {
    loop_.Unwatch(process_.pidfd.get());
    running_ = false;
    const Result<io::ExitStatus> exit = io::Reap(process_.pidfd);
    if (!exit.ok()) return Finish(exit.status());
    exit_ = *exit;
    // A child of the program may hold the pipe open: what the program wrote is there by now.
    if (!ended_output_) ReadOutput();
    if (exit_) Conclude();
  }

  void Conclude() {
    const io::ExitStatus exit = *std::exchange(exit_, std::nullopt);
    if (exit.exit_code == 0) return Finish(std::move(text_));
    Finish(FailedPrecondition(exit.exit_code > 0
                                  ? "ended with exit code " + std::to_string(exit.exit_code)
                                  : "was ended by signal " + std::to_string(exit.signal)));
  }

  // The callback may destroy this.
  void Finish(Result<std::string> result) {
    StopWatching();
    const Done done = std::move(done_);
    done(std::move(result));
  }

  void StopWatching() {
    if (timer_) loop_.Cancel(*timer_);
    timer_.reset();
    if (output_.valid()) loop_.Unwatch(output_.get());
    if (process_.pidfd.valid()) loop_.Unwatch(process_.pidfd.get());
  }

  io::EventLoop& loop_;
  const ExecSettings& settings_;
  Done done_;
  io::Fd output_;
  io::Process process_;
  bool running_ = false;
  bool ended_output_ = false;
  std::optional<io::ExitStatus> exit_;
  std::optional<io::EventLoop::TimerId> timer_;
  std::string text_;
};

class Exec final : public CredentialSource {
 public:
  Exec(io::EventLoop& loop, ExecSettings settings) : loop_(loop), settings_(std::move(settings)) {}

  void Get(Done done) override {
    if (credential_ && !refused_ && !Expires()) return done(credential_);
    waiting_.push_back(std::move(done));
    if (run_) return;
    run_ = std::make_unique<PluginRun>(loop_, settings_,
                                       [this](Result<std::string> output) { OnOutput(output); });
    if (const Status started = run_->Start(); !started.ok()) OnOutput(started);
  }

  void Refused(const Shared& used) override {
    if (used == credential_ && io::MonotonicNow() - read_at_ >= kLeastAge) refused_ = true;
  }

 private:
  bool Expires() const {
    return credential_->expires_at && io::Now() + kRenewBefore >= *credential_->expires_at;
  }

  Result<Credential> Read(const Result<std::string>& output) {
    const std::string& command = settings_.plugin.command;
    if (output.ok()) return ReadExecCredential(parser_, PaddedString(*output).view(), command);
    const std::string& hint = settings_.plugin.install_hint;
    return output.status().WithContext("credential plug-in " + Printable(command) +
                                       (hint.empty() ? "" : " (" + Printable(hint, 200) + ")"));
  }

  void OnOutput(const Result<std::string>& output) {
    // Shared only because posted work is copied: this call may be within the run's own.
    loop_.Post([ended = std::shared_ptr<PluginRun>(std::move(run_))] {});
    const Result<Credential> read = Read(output);
    if (read.ok()) {
      credential_ = std::make_shared<const Credential>(*read);
      read_at_ = io::MonotonicNow();
      refused_ = false;
    }
    // Credentials that failed to be renewed are not used further: they are refused or expired.
    const Result<Shared> result = read.ok() ? Result<Shared>(credential_) : read.status();
    for (const Done& done : std::exchange(waiting_, {})) done(result);
  }

  io::EventLoop& loop_;
  const ExecSettings settings_;
  JsonParser parser_;
  Shared credential_;
  bool refused_ = false;
  Instant read_at_;
  std::unique_ptr<PluginRun> run_;
  std::vector<Done> waiting_;
};

}  // namespace

std::unique_ptr<CredentialSource> ExecCredentials(io::EventLoop& loop, ExecSettings settings) {
  return std::make_unique<Exec>(loop, std::move(settings));
}

}  // namespace longhaul::engines::kubernetes
