// Any bytes as a device file: read or refused, and what is read is written back to an equal one.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "planner/local/device_file.h"
#include "planner/local/operator_times.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace longhaul::planner;
  const auto file = ParseDeviceFile({reinterpret_cast<const char*>(data), size});
  if (!file.ok()) return 0;
  const auto again = ParseDeviceFile(ToJson(*file));
  if (!again.ok() || !(*again == *file)) std::abort();
  if (file->figures.size() > 40) return 0;  // surfaces take the cube of that
  const OperatorTimes times(file->figures);
  for (size_t kind = 0; kind < kFigureKinds; ++kind) {
    if (!(times.Of(FigureKind(kind), {64, 64, 64}).total() >= 0)) std::abort();
  }
  return 0;
}
