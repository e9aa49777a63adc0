#include "service/agent/devices/device_error.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/text.h"

namespace longhaul::service {
namespace {

constexpr size_t kLongestDevice = 32;
constexpr size_t kLongestText = 300;

constexpr uint32_t kReset[] = {46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 156, 158};
constexpr uint32_t kRecoveryAction = 154;

// "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
bool NamesReset(std::string_view text) {
  const size_t to = text.rfind(" to ");
  if (to == std::string_view::npos) return false;
  const std::string_view action = text.substr(to);
  return action.find("Reset") != std::string_view::npos ||
         action.find("Reboot") != std::string_view::npos;
}

}  // namespace

std::optional<DeviceError> DeviceErrorOf(std::string_view message) {
  constexpr std::string_view kBegin = "NVRM: Xid (";
  if (!message.starts_with(kBegin)) return std::nullopt;
  message.remove_prefix(kBegin.size());
  const size_t device_end = message.find("): ");
  if (device_end == 0 || device_end > kLongestDevice) return std::nullopt;
  DeviceError error;
  error.device = Printable(message.substr(0, device_end), kLongestDevice);
  message.remove_prefix(device_end + 3);
  const char* const end = message.data() + message.size();
  const auto [code_end, problem] = std::from_chars(message.data(), end, error.code);
  if (problem != std::errc() || (code_end != end && *code_end != ',')) return std::nullopt;
  if (code_end != end) {
    error.text =
        Printable(Trim(std::string_view(code_end + 1, static_cast<size_t>(end - code_end - 1))),
                  kLongestText);
  }
  error.needs_reset =
      std::find(std::begin(kReset), std::end(kReset), error.code) != std::end(kReset) ||
      (error.code == kRecoveryAction && NamesReset(error.text));
  return error;
}

}  // namespace longhaul::service
