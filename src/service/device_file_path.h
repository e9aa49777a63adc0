// Where the device file lies that `longhaul calibrate` writes and the controller reads.
#pragma once

#include <string>

namespace longhaul::service {

// Returns $LONGHAUL_DEVICE_FILE, else $XDG_CONFIG_HOME/longhaul/device.json, else
// ~/.config/longhaul/device.json; empty without any.
std::string DefaultDeviceFile();

}  // namespace longhaul::service
