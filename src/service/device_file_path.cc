#include "service/device_file_path.h"

#include <cstdlib>

namespace longhaul::service {

std::string DefaultDeviceFile() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string named = variable("LONGHAUL_DEVICE_FILE"); !named.empty()) return named;
  if (const std::string config = variable("XDG_CONFIG_HOME"); !config.empty()) {
    return config + "/longhaul/device.json";
  }
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.config/longhaul/device.json";
}

}  // namespace longhaul::service
