// A driver for fuzzers where libFuzzer isn't: replays a corpus, then seeded mutations of it.
//
//   FUZZER [--seconds N] [--runs N] [--seed S] [file or directory]...
//
// Same corpus, seed and run count: same inputs. The time limit only decides how many of them are
// tried; --seconds 0 replays the corpus and stops. An input that crashes, aborts, fails under a
// sanitizer or takes longer than ten seconds is written to crash-<hash> in the temporary directory,
// its path is printed, and the process ends by the signal. To repeat it: FUZZER --seconds 0 PATH.
//
// It knows nothing about coverage; for a long search build the preset `fuzz` with clang.
#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// In AddressSanitizer's and UndefinedBehaviorSanitizer's runtimes; null without them.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace longhaul {
namespace {

using Input = std::vector<uint8_t>;

constexpr int kHangSeconds = 10;           // an input this slow is a bug in a parser
constexpr size_t kLeastInputLimit = 4096;  // mutations grow to this or twice the largest seed

struct Options {
  double seconds = 2;
  uint64_t runs = std::numeric_limits<uint64_t>::max();
  uint64_t seed = 1;
  std::vector<std::string> paths;
};

// What the signal handler needs to know. One thread runs inputs; the handler runs on it.
const Input* running = nullptr;
char crash_directory[512] = "/tmp";
volatile sig_atomic_t inputs_begun = 0;
volatile sig_atomic_t inputs_begun_at_last_tick = -1;

// From here to the next mark: called from signal handlers, so only async-signal-safe functions.

void Say(std::string_view text) {
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

void SaveRunningInput() {
  if (running == nullptr) return;
  const Input& input = *running;
  running = nullptr;  // a second fault must not come back here
  char path[600];
  const size_t directory_size = std::strlen(crash_directory);
  std::memcpy(path, crash_directory, directory_size);
  char* end = path + directory_size;
  constexpr std::string_view kName = "/crash-";
  end = std::copy(kName.begin(), kName.end(), end);
  uint64_t hash = Hash64(input.data(), input.size());
  for (int digit = 0; digit < 16; ++digit, hash <<= 4) *end++ = "0123456789abcdef"[hash >> 60];
  *end = '\0';
  const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  size_t written = 0;
  while (fd >= 0 && written < input.size()) {
    const ssize_t n = write(fd, input.data() + written, input.size() - written);
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  if (fd >= 0) close(fd);
  Say(fd >= 0 && written == input.size() ? "crashing input: " : "cannot write crashing input: ");
  Say({path, static_cast<size_t>(end - path)});
  Say("\n");
}

void OnFatalSignal(int signal_number) {
  SaveRunningInput();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void OnTick(int) {
  if (running != nullptr && inputs_begun == inputs_begun_at_last_tick) {
    Say("input takes too long\n");
    OnFatalSignal(SIGABRT);
  }
  inputs_begun_at_last_tick = inputs_begun;
}

// End of what signal handlers call.

void InstallHandlers() {
  static char stack[64 * 1024];  // a stack of its own, so that endless recursion is caught too
  stack_t alternate = {};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof(stack);
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_handler = OnFatalSignal;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(number, &action, nullptr);
  }
  action.sa_handler = OnTick;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every = {{kHangSeconds, 0}, {kHangSeconds, 0}};
  setitimer(ITIMER_REAL, &every, nullptr);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(SaveRunningInput);
}

void Run(const Input& input) {
  // A copy of its own on the heap, so that AddressSanitizer sees a read past the end.
  const Input exact(input.begin(), input.end());
  inputs_begun = (inputs_begun + 1) & 0xffff;
  running = &exact;
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  running = nullptr;
}

Input ReadInput(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return Input(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Every regular file under the paths, ordered by path. A path that isn't there gives none.
std::vector<Input> ReadCorpus(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (std::filesystem::is_regular_file(path)) files.emplace_back(path);
    if (!std::filesystem::is_directory(path)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> corpus;
  for (const auto& file : files) corpus.push_back(ReadInput(file));
  return corpus;
}

// Makes new inputs from old ones. Requires a corpus that isn't empty.
class Mutator {
 public:
  Mutator(const std::vector<Input>& corpus, uint64_t seed) : corpus_(corpus), random_(seed) {
    for (const Input& input : corpus) limit_ = std::max(limit_, 2 * input.size());
  }

  Input Next() {
    Input input = Pick();
    // Mostly one or two changes, now and then many: most parsers stop at the first error.
    const uint64_t changes = random_.Below(8) == 0 ? 1 + random_.Below(32) : 1 + random_.Below(2);
    for (uint64_t i = 0; i < changes; ++i) Change(input);
    if (input.size() > limit_) input.resize(limit_);
    return input;
  }

 private:
  const Input& Pick() { return corpus_[random_.Below(corpus_.size())]; }
  uint8_t Byte() { return static_cast<uint8_t>(random_.Below(256)); }

  // A place between bytes, or the end.
  auto Place(Input& input) {
    return input.begin() + static_cast<ptrdiff_t>(random_.Below(input.size() + 1));
  }

  // A stretch [begin, end) of the input, mostly short.
  std::pair<size_t, size_t> Span(const Input& input) {
    const size_t begin = random_.Below(input.size() + 1);
    const size_t rest = input.size() - begin;
    const size_t most = random_.Below(4) == 0 ? rest : std::min<size_t>(rest, 16);
    return {begin, begin + random_.Below(most + 1)};
  }

  void Change(Input& input) {
    switch (random_.Below(8)) {
      case 0:
        if (!input.empty()) {
          input[random_.Below(input.size())] ^= static_cast<uint8_t>(1u << random_.Below(8));
        }
        return;
      case 1:
        if (!input.empty()) input[random_.Below(input.size())] = Byte();
        return;
      case 2:
        return input.resize(random_.Below(input.size() + 1));
      case 3:
        return InsertBytes(input);
      case 4:
        return Remove(input);
      case 5:
        return Duplicate(input);
      case 6:
        return Splice(input);
      case 7:
        return random_.Below(2) == 0 ? SetInteger(input) : SetDecimal(input);
    }
  }

  void InsertBytes(Input& input) {
    const Input bytes(1 + random_.Below(8), Byte());
    input.insert(Place(input), bytes.begin(), bytes.end());
  }

  void Remove(Input& input) {
    const auto [begin, end] = Span(input);
    input.erase(input.begin() + static_cast<ptrdiff_t>(begin),
                input.begin() + static_cast<ptrdiff_t>(end));
  }

  void Duplicate(Input& input) {
    const auto [begin, end] = Span(input);
    const Input span(input.begin() + static_cast<ptrdiff_t>(begin),
                     input.begin() + static_cast<ptrdiff_t>(end));
    // Now and then very often: this is how deep nesting is found.
    const uint64_t times = random_.Below(16) == 0 ? random_.Below(512) : 1;
    Input copies;
    for (uint64_t i = 0; i < times && copies.size() < limit_; ++i) {
      copies.insert(copies.end(), span.begin(), span.end());
    }
    input.insert(Place(input), copies.begin(), copies.end());
  }

  // The front of this one and the back of another.
  void Splice(Input& input) {
    const Input& other = Pick();
    input.resize(random_.Below(input.size() + 1));
    input.insert(input.end(),
                 other.begin() + static_cast<ptrdiff_t>(random_.Below(other.size() + 1)),
                 other.end());
  }

  // A number near the edge of some type, of one, two, four or eight bytes, in either byte order.
  void SetInteger(Input& input) {
    const size_t bytes = size_t{1} << random_.Below(4);
    if (input.size() < bytes) return;
    uint64_t number = uint64_t{1} << random_.Below(64);
    number = random_.Below(2) == 0 ? number + random_.Below(3) - 1 : ~number + random_.Below(3);
    const size_t at = random_.Below(input.size() - bytes + 1);
    const bool big_endian = random_.Below(2) == 0;
    for (size_t i = 0; i < bytes; ++i) {
      input[at + i] = static_cast<uint8_t>(number >> (8 * (big_endian ? bytes - 1 - i : i)));
    }
  }

  // Replaces a run of decimal digits, where there is one, by a number that parsers get wrong.
  void SetDecimal(Input& input) {
    static constexpr std::string_view kNumbers[] = {
        "0",   "-1",  "1e999",      "2147483648",          "4294967296",
        "NaN", "0.5", "0x7fffffff", "9223372036854775808", "18446744073709551616"};
    const auto is_digit = [](uint8_t byte) { return byte >= '0' && byte <= '9'; };
    const auto begin = std::find_if(Place(input), input.end(), is_digit);
    const auto end = std::find_if_not(begin, input.end(), is_digit);
    if (begin == end) return;
    const std::string_view number = kNumbers[random_.Below(std::size(kNumbers))];
    input.insert(input.erase(begin, end), number.begin(), number.end());
  }

  const std::vector<Input>& corpus_;
  Random random_;
  size_t limit_ = kLeastInputLimit;
};

[[noreturn]] void Usage(const char* program, std::string_view wrong) {
  std::fprintf(stderr, "%s: %.*s\nusage: %s [--seconds N] [--runs N] [--seed S] [PATH]...\n",
               program, static_cast<int>(wrong.size()), wrong.data(), program);
  std::exit(2);
}

template <typename T>
void ParseInto(T& value, const char* program, std::string_view text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    Usage(program, "not a number: " + std::string(text));
  }
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  bool seconds_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with("--")) {
      options.paths.emplace_back(argument);
      continue;
    }
    if (argument != "--seconds" && argument != "--runs" && argument != "--seed") {
      Usage(argv[0], "unknown option " + std::string(argument));
    }
    if (i + 1 == argc) Usage(argv[0], std::string(argument) + " needs a value");
    const std::string_view value = argv[++i];
    if (argument == "--seconds") {
      ParseInto(options.seconds, argv[0], value);
      seconds_given = true;
    }
    if (argument == "--runs") ParseInto(options.runs, argv[0], value);
    if (argument == "--seed") ParseInto(options.seed, argv[0], value);
  }
  const bool runs_given = options.runs != std::numeric_limits<uint64_t>::max();
  if (runs_given && !seconds_given) options.seconds = std::numeric_limits<double>::infinity();
  return options;
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  const std::string temporary = std::filesystem::temp_directory_path().string();
  if (temporary.size() < sizeof(crash_directory)) {
    std::memcpy(crash_directory, temporary.c_str(), temporary.size() + 1);
  }
  InstallHandlers();
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);

  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<Input> corpus = ReadCorpus(options.paths);
  const size_t files = corpus.size();
  for (const Input& input : corpus) Run(input);
  Run({});
  corpus.emplace_back();  // and so the mutator always has something to begin with
  Mutator mutator(corpus, options.seed);
  uint64_t runs = 0;
  while (runs < options.runs && elapsed() < options.seconds) {
    Run(mutator.Next());
    ++runs;
  }
  std::printf("ok: %zu corpus files and %llu mutations in %.1f s\n", files,
              static_cast<unsigned long long>(runs), elapsed());
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) { return longhaul::Main(argc, argv); }
