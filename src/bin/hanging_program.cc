// Hangs in a function with a name, for tests.
//
//   hanging_program wait|sleep|stop|protected
//
// protected: as wait, as the user nobody, whose other processes may not trace it. Writes a line to
// its standard output before it hangs.
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <thread>

namespace hanging {

// Reads from a pipe that nobody writes.
int wait_for_a_byte(int padding) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return 1;
  char byte = 0;
  return static_cast<int>(read(ends[0], &byte, 1)) + padding;
}

int sleep_forever(int padding) {
  while (true) sleep(1'000);
  return padding;
}

int stop_itself(int padding) {
  std::raise(SIGSTOP);
  return sleep_forever(padding);
}

template <typename T>
T in_a_template(T what) {
  return wait_for_a_byte(what) + 1;
}

}  // namespace hanging

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  std::thread([] { hanging::sleep_forever(1); }).detach();
  if (mode == "protected") {
    constexpr uid_t kNobody = 65'534;
    if (setresgid(kNobody, kNobody, kNobody) != 0) return 1;
    if (setresuid(kNobody, kNobody, kNobody) != 0) return 1;
    prctl(PR_SET_DUMPABLE, 0);
  }
  std::puts("ready");
  std::fflush(stdout);
  if (mode == "sleep") return hanging::sleep_forever(1);
  if (mode == "stop") return hanging::stop_itself(1);
  return hanging::in_a_template<int>(1) > 0 ? 1 : 0;
}
