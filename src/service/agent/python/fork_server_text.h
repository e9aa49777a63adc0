// The text of fork_server.py.
#pragma once

namespace longhaul::service {

const char* ForkServerText();

}  // namespace longhaul::service
