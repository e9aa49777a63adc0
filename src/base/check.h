// CHECK: a bug stops the program at once, in every build, with the location and the reason.
//
//   CHECK(ranks >= 1) << "a gang needs a rank";
#pragma once

#include <sstream>

namespace longhaul::internal {

// Collects the reason; its destructor prints it with the location to standard error and aborts.
class CheckFailure {
 public:
  CheckFailure(const char* condition, const char* file, int line);
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;
  [[noreturn]] ~CheckFailure();

  std::ostream& stream() { return reason_; }

 private:
  std::ostringstream reason_;
};

// Makes `CHECK(x) << y` one expression of type void.
struct Voidify {
  void operator&(std::ostream&) const {}
};

}  // namespace longhaul::internal

#undef CHECK  // glog's, where libtorch's headers came first
#define CHECK(condition)                          \
  (condition) ? static_cast<void>(0)              \
              : ::longhaul::internal::Voidify() & \
                    ::longhaul::internal::CheckFailure(#condition, __FILE__, __LINE__).stream()
