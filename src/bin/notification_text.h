// One notification of a controller as a line for people.
#pragma once

#include <string>

#include "service/client/rest_client.h"

namespace longhaul::bin {

// "2026-01-31T08:00:00.000Z  headers-gpt-1  step      40/300  loss 2.412 ...". An event of an
// unknown kind is shown as its JSON.
std::string NotificationLine(const service::FeedEvent& event);

}  // namespace longhaul::bin
