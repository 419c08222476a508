import Configuration
import HTTPTypes
import Logging
import ServiceLifecycle
import Yams
