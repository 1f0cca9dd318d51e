# A tree whose nodes refer to their parents.
use v5.16;

package Node {    ## no critic (RequireFilenameMatchesPackage)
    use Moose;
    has parent   => (is => 'rw', weak_ref => !!$ENV{MENDED});
    has children => (is => 'ro', default  => sub { [] });
    __PACKAGE__->meta->make_immutable;
}

sub {
    my $root = Node->new;
    push @{$root->children}, Node->new(parent => $root);
    return [200, [], [scalar @{$root->children}]];
};
