"""What Flower's error replies mean: the codes that are told apart."""

from flwr.common.constant import ErrorCode

CLIENT_APP_RAISED: int = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
MESSAGE_UNAVAILABLE: int = ErrorCode.MESSAGE_UNAVAILABLE
NO_HELLO = "No query function registered with name 'hello'"  # what a ClientApp says that is Flower's own
FORMER_APP = "Invalid message type: query.hello"  # what one says whose client_fn is of Flower's former interface
NODE_UNAVAILABLE: int = ErrorCode.NODE_UNAVAILABLE
