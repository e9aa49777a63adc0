#include "service/agent/activity/stack_reader.h"

#include <signal.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "io/files/file.h"
#include "io/process/process.h"
#include "service/agent/activity/stack_text.h"

namespace longhaul::service {
namespace {

constexpr uint64_t kLongestFact = 16 * 1024;
constexpr size_t kMostThreads = 256;

std::string ReadFact(const std::string& path) {
  const Result<std::string> text = io::ReadText(path, kLongestFact);
  return text.ok() ? std::string(Trim(*text)) : std::string();
}

std::string FolderOf(pid_t process) { return "/proc/" + std::to_string(process); }

// The letter after the name in brackets; '?' when the thread has ended.
char StateIn(const std::string& stat) {
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '?' : stat[name_end + 2];
}

}  // namespace

std::string ThreadsText(pid_t process) {
  std::string text;
  size_t threads = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(FolderOf(process) + "/task", error), end;
       at != end && !error && threads < kMostThreads; at.increment(error), ++threads) {
    const std::string thread = at->path().string();
    const std::string where = ReadFact(thread + "/wchan");
    text += "thread " + at->path().filename().string() + " (" +
            Printable(ReadFact(thread + "/comm"), 32) + "): state " +
            StateIn(ReadFact(thread + "/stat")) + ", " +
            SystemCallName(ReadFact(thread + "/syscall")) +
            (where.empty() || where == "0" ? "" : ", in " + Printable(where, 64)) + "\n";
  }
  return text;
}

StackReader::~StackReader() {
  for (const io::EventLoop::TimerId timer : timers_) loop_.Cancel(timer);
}

// Sends the signal where it is certain that it does not end the process and means nothing else to
// it: a worker that has registered for it has made its file. The pidfd makes sure that the process
// whose handlers are read is the one that receives it.
std::optional<size_t> StackReader::AskForStack(const StackTarget& target) const {
  const Result<io::Fd> process = io::OpenPidfd(target.process);
  if (!process.ok()) return std::nullopt;
  const Result<std::string> before = read_(target.file);
  if (!before.ok()) return std::nullopt;
  const std::string folder = FolderOf(target.process);
  if (StateIn(ReadFact(folder + "/stat")) == 'T') return std::nullopt;
  if (!HandlesSignal(ReadFact(folder + "/status"), kStackSignal)) return std::nullopt;
  if (!io::Signal(*process, kStackSignal).ok()) return std::nullopt;
  return before->size();
}

void StackReader::Read(std::vector<StackTarget> targets, Done done) {
  std::vector<Asked> asked;
  for (StackTarget& target : targets) {
    const std::optional<size_t> before = AskForStack(target);
    asked.push_back({std::move(target), before.has_value(), before.value_or(0), ""});
  }
  Later(std::move(asked), std::move(done), kPolls);
}

void StackReader::Later(std::vector<Asked> asked, Done done, int polls) {
  const auto timer = std::make_shared<io::EventLoop::TimerId>();
  *timer =
      loop_.After(kPoll, [this, timer, asked = std::move(asked), done = std::move(done), polls] {
        timers_.erase(*timer);
        Poll(asked, done, polls);
      });
  timers_.insert(*timer);
}

// A file is complete when it has text and did not grow since the last look at it.
void StackReader::Poll(std::vector<Asked> asked, Done done, int polls) {
  bool waits = false;
  for (Asked& each : asked) {
    if (!each.waits) continue;
    const Result<std::string> text = read_(each.target.file);
    const std::string now =
        text.ok() && text->size() > each.before ? text->substr(each.before) : "";
    each.waits = now.empty() || now != each.written;
    each.written = now;
    waits = waits || each.waits;
  }
  if (waits && polls > 0) return Later(std::move(asked), std::move(done), polls - 1);
  std::vector<pid_t> processes;
  for (const Asked& each : asked) processes.push_back(each.target.process);
  native_.Read(processes,
               [asked = std::move(asked), done = std::move(done)](const NativeStacks& native) {
                 std::vector<StackOfWorker> stacks;
                 for (const Asked& each : asked) stacks.push_back(StackOf(each, native));
                 done(std::move(stacks));
               });
}

StackOfWorker StackReader::StackOf(const Asked& asked, const NativeStacks& native) {
  StackOfWorker stack;
  stack.rank = asked.target.rank;
  const auto found = native.stacks.find(asked.target.process);
  const bool is_read = found != native.stacks.end();
  std::vector<std::string> calls = PythonCalls(asked.written);
  if (calls.empty() && is_read) calls = found->second.main_calls;
  for (const std::string& call : calls) stack.calls += call + "\n";
  if (calls.empty()) {
    stack.calls = SystemCallName(ReadFact(FolderOf(asked.target.process) + "/syscall"));
  }
  stack.text = ThreadsText(asked.target.process) + asked.written;
  if (is_read) stack.text += "native stacks:\n" + found->second.text;
  if (!native.problem.empty()) stack.text += "! " + native.problem + "\n";
  return stack;
}

}  // namespace longhaul::service
