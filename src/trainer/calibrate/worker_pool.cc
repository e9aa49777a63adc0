#include "trainer/calibrate/worker_pool.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "io/clock.h"
#include "trainer/calibrate/probe.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/group.h"
#include "trainer/worker/process_memory.h"

namespace longhaul::trainer {
namespace {

using namespace longhaul::literals;
using planner::Figure;

struct Request {
  Figure figure;
  int64_t budget_ns = 0;
};
struct Answer {
  bool measured = false;
  Figure figure;
};
static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Answer>);

// Pipes carry these whole: they are shorter than PIPE_BUF.
template <typename T>
bool Send(const io::Fd& to, const T& message) {
  return write(to.get(), &message, sizeof(message)) == sizeof(message);
}
template <typename T>
bool Receive(const io::Fd& from, T& message) {
  ssize_t got = 0;
  do {
    got = read(from.get(), &message, sizeof(message));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(message);
}

Result<std::pair<io::Fd, io::Fd>> Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return FromErrno(errno, "cannot make a pipe");
  return std::pair(io::Fd(ends[0]), io::Fd(ends[1]));
}

// A child that can't outlive us runs `work` and ends with what it returns.
// The parent may end between the fork and prctl, and then no signal comes, so it is compared
// afterwards.
Result<pid_t> Fork(const std::function<int()>& work) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return FromErrno(errno, "cannot fork");
  if (child > 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // the parent decides
  if (getppid() != parent) _exit(1);
  _exit(work());
}

void Serve(const io::Fd& from, const io::Fd& to, Probe& probe) {
  for (Request request; Receive(from, request);) {
    const auto figure = probe.Measure(request.figure, Duration(request.budget_ns));
    Answer answer;
    answer.measured = figure.ok();
    if (figure.ok()) answer.figure = *figure;
    if (!Send(to, answer)) return;
  }
}

// A port that was free a moment ago.
// Another process may take the port before rank 0 listens. Then the join fails, and the measurement
// is reported as not possible.
Result<uint16_t> FreePort() {
  const io::Fd socket_fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(socket_fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return FromErrno(errno, "no free port on the loopback");
  }
  return ntohs(address.sin_port);
}

// Runs `work` on `ranks` forked ranks of one group; rank 0 writes its answer into a pipe, of which
// the reading end is returned once all have ended. kUnavailable when one of them failed.
Result<io::Fd> RunRanks(int ranks, const std::function<bool(Group&, const io::Fd&)>& work) {
  ASSIGN_OR_RETURN(const uint16_t port, FreePort());
  ASSIGN_OR_RETURN(auto pipe, Pipe());
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto one = [&] {
      GroupOptions options;
      options.rank = rank;
      options.world = ranks;
      options.port = port;
      options.serve_store = rank == 0;
      auto group = Group::Join(options);
      if (!group.ok()) return 1;
      const bool done = work(**group, pipe.second);
      // The store lies in rank 0: it stays until the others are done with it.
      float token = 0;
      const bool all = done && (*group)->Sum(std::span(&token, 1)).ok();
      return all ? 0 : 1;
    };
    const auto child = Fork(one);
    if (child.ok()) children.push_back(*child);
  }
  bool good = children.size() == static_cast<size_t>(ranks);
  for (const pid_t child : children) {
    if (!good) kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  if (!good) return Unavailable(std::to_string(ranks) + " processes could not sum with each other");
  return std::move(pipe.first);
}

// Times sums of one size. All ranks agree, in the sum before, when it is enough.
std::optional<Figure> TimeSums(Group& group, Figure figure, Duration budget) {
  std::vector<float> values(std::max<size_t>(1, static_cast<size_t>(figure.sizes[1]) / 4));
  std::vector<double> times;
  const Instant limit = io::MonotonicNow() + budget;
  for (bool warm = false;; warm = true) {
    float more = io::MonotonicNow() < limit || times.size() < 3 ? 1.0F : 0.0F;
    if (!group.Sum(std::span(&more, 1)).ok()) return std::nullopt;
    if (more < static_cast<float>(group.world()) && times.size() >= 3) break;
    const Instant begin = io::MonotonicNow();
    if (!group.Sum(std::span(values)).ok()) return std::nullopt;
    if (warm) times.push_back(ToSeconds(io::MonotonicNow() - begin));
  }
  Summarise(std::move(times), {}, figure);
  return figure;
}

}  // namespace

Result<std::unique_ptr<WorkerPool>> WorkerPool::Start(uint32_t processes,
                                                      const std::string& directory) {
  std::unique_ptr<WorkerPool> pool(new WorkerPool());
  for (uint32_t i = 0; i < processes; ++i) {
    ASSIGN_OR_RETURN(auto requests, Pipe());
    ASSIGN_OR_RETURN(auto answers, Pipe());
    Member member;
    member.to = std::move(requests.second);
    member.from = std::move(answers.first);
    ASSIGN_OR_RETURN(member.pid, Fork([&] {
                       // Ends of the others' pipes would keep them open after the order to end.
                       member.to.Reset();
                       for (Member& other : pool->members_) other.to.Reset();
                       at::manual_seed(i + 1);
                       Serve(requests.first, answers.second, *MakeCpuProbe(directory));
                       return 0;
                     }));
    pool->members_.push_back(std::move(member));
  }
  return pool;
}

WorkerPool::~WorkerPool() {
  for (Member& member : members_) member.to.Reset();
  for (const Member& member : members_) {
    while (waitpid(member.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

Result<Figure> WorkerPool::Measure(const Figure& what, Duration budget) {
  Figure sum = what;
  for (const Member& member : members_) {
    if (!Send(member.to, Request{what, budget.count()})) {
      return Unavailable("a measuring process has ended");
    }
  }
  bool good = true;
  for (const Member& member : members_) {
    Answer answer;
    if (!Receive(member.from, answer)) return Unavailable("a measuring process has ended");
    good = good && answer.measured;
    sum.forward_s += answer.figure.forward_s;
    sum.backward_s += answer.figure.backward_s;
    sum.spread = std::max(sum.spread, answer.figure.spread);
    sum.repeats =
        sum.repeats == 0 ? answer.figure.repeats : std::min(sum.repeats, answer.figure.repeats);
  }
  if (!good) return Unavailable("cannot be measured here");
  sum.forward_s /= static_cast<double>(members_.size());
  sum.backward_s /= static_cast<double>(members_.size());
  return sum;
}

Result<std::vector<Figure>> MeasureAllReduce(const std::vector<Figure>& all, Duration budget_each) {
  CHECK(!all.empty());
  const auto ranks = static_cast<int>(all.front().sizes[0]);
  const auto work = [&](Group& group, const io::Fd& to) {
    for (const Figure& what : all) {
      const auto figure = TimeSums(group, what, budget_each);
      if (!figure || (group.rank() == 0 && !Send(to, *figure))) return false;
    }
    return true;
  };
  ASSIGN_OR_RETURN(const io::Fd from, RunRanks(ranks, work));
  std::vector<Figure> figures(all.size());
  for (Figure& figure : figures) {
    if (!Receive(from, figure)) return Unavailable("the sums' times are missing");
  }
  return figures;
}

Result<Bytes> MeasureProcessMemory() {
  const auto work = [](Group& group, const io::Fd& to) {
    spec::ModelSpec tiny;
    tiny.layers = 1;
    tiny.hidden = 32;
    tiny.sequence = 16;
    const ParameterTable table(tiny);
    std::vector<float> weights(table.floats());
    std::vector<float> gradients(table.floats());
    Initialise(table, 1, weights);
    Gpt model(tiny, table, weights, gradients);
    const std::vector<int64_t> tokens(17, 0);
    model.Backward(model.Forward({}, tokens), 1);
    // BLAS packs its operands into memory that it keeps: a product that fills it. Its own operands
    // of 1 MiB each are the model's in a real worker.
    const at::Tensor a = at::ones({512, 512});
    if (at::mm(a, a)[0][0].item<float>() != 512 || !group.Sum(std::span(gradients)).ok()) {
      return false;
    }
    return group.rank() != 0 || Send(to, PeakProcessMemory() - 2_MiB);
  };
  ASSIGN_OR_RETURN(const io::Fd from, RunRanks(2, work));
  Bytes bytes;
  if (!Receive(from, bytes)) return Unavailable("the process's memory is missing");
  return bytes;
}

}  // namespace longhaul::trainer
