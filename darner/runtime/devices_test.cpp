// SPDX-License-Identifier: MIT
// Devices by name.
#include "darner/runtime/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

using ::testing::HasSubstr;

TEST(Devices, EveryListedDeviceOpensByItsId) {
    const Result<std::vector<DeviceInfo>> devices = list_devices();
    ASSERT_TRUE(devices) << devices.error().text();
    ASSERT_FALSE(devices->empty());
    EXPECT_EQ(devices->back().id, "interp");
    for (const DeviceInfo& device : *devices) {
        const Result<std::unique_ptr<Device>> opened = open_device(device.id);
        ASSERT_TRUE(opened) << opened.error().text();
        EXPECT_EQ((*opened)->info().name, device.name);
        EXPECT_EQ((*opened)->info().id, device.id);
    }
}

TEST(Devices, UnknownIdsNameTheNearestAndListAll) {
    const Result<std::unique_ptr<Device>> opened = open_device("vulcan");
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message, HasSubstr("no device \"vulcan\""));
    EXPECT_THAT(opened.error().message, HasSubstr("interp (checking interpreter"));
    EXPECT_THAT(opened.error().hint, HasSubstr("vulkan"));
    EXPECT_FALSE(open_device("interp:9"));
    EXPECT_FALSE(open_device("vulkan:77"));
}

}  // namespace
}  // namespace darner
