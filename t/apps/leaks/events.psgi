# A handler that each request adds and none removes.
use v5.16;

package Bus {    ## no critic (RequireFilenameMatchesPackage)
    my %handlers;
    sub on { my ($class, $name, $handler) = @_; return $handlers{$name}{$handler} = $handler }
    sub off { my ($class, $name, $handler) = @_; return delete $handlers{$name}{$handler} }
}

package Handler {
    sub new { my ($class, %given) = @_; return bless {%given}, $class }
}

sub {
    my $env     = shift;
    my $handler = Bus->on(tick => Handler->new(path => $env->{PATH_INFO}));
    Bus->off(tick => $handler) if $ENV{MENDED};
    return [200, [], ['ok']];
};
